package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/journal"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

func (a *Agent) getJournalFiles(w http.ResponseWriter, _ *http.Request) {
	files, current, err := a.journal.Files()
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	if files == nil {
		files = []wire.JournalFile{}
	}
	write(w, http.StatusOK, wire.JournalFilesReply{V: wire.V, Node: a.id.Node.Name, Current: current, Files: files, Kept: a.journal.Keep})
}

// journalPrune removes old journals; the one being written says so and stays.
func (a *Agent) journalPrune(_ context.Context, in wire.JournalPruneRequest) (out wire.PruneReply, err error) {
	if in.Keep < 0 {
		return out, badRequest{errors.New("keep is negative")}
	}
	files, _, err := a.journal.Files()
	if err != nil {
		return out, err
	}
	in.Evidence = "set aside are " + journal.Names(files)
	err = a.act(in.Act, "PruneJournal", fmt.Sprintf("prune journals set aside, all but the newest %d", in.Keep), func(context.Context) error {
		removed, err := a.journal.Prune(in.Keep)
		for _, f := range removed {
			out.Removed, out.Bytes = append(out.Removed, f.Name), out.Bytes+f.Bytes
		}
		return err
	})
	out.Reply = ok()
	return out, err
}
