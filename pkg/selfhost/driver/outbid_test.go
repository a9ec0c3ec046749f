package driver

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// Two drivers that begin at once may take the same number, one at a majority,
// the other at the rest, and the second gives up: the first would be refused
// there for ever, so its grant is no longer good and is taken anew, above.
func TestANumberKeptForAnotherIsTakenAnew(t *testing.T) {
	for name, outbidden := range map[string]bool{"EqualNumber": true, "LowerNumber": true, "GrantDropped": true, "GrantHeld": false, "NotNamed": false} {
		if got := outbid(map[string]error{"cp-3": &wire.Refusal{Name: name}}); got != outbidden {
			t.Errorf("%s: outbid %t", name, got)
		}
	}
	if outbid(map[string]error{"cp-3": errors.New("no answer")}) {
		t.Error("silence outbids nobody (I4)")
	}
	g := &grant{good: 1, goodAt: time.Now()}
	if !g.valid() {
		t.Fatal("a fresh round is not valid")
	}
	if g.outbid = true; g.valid() {
		t.Error("a grant that an agent will never honour is still good")
	}
}
