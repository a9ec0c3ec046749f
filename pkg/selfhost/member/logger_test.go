package member

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestZapGoesToSlog(t *testing.T) {
	var b bytes.Buffer
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo})
	lg := zapTo(h, zapcore.InfoLevel).With(zap.String("member", "a1"))
	lg.Debug("hidden")
	lg.Named("raft").Warn("slow", zap.Duration("took", time.Second), zap.Strings("urls", []string{"x", "y"}), zap.Error(errors.New("why")))
	got := b.String()
	for _, want := range []string{`level=WARN msg=slow member=a1 logger=raft took=1s urls="[x y]" error=why`} {
		if !strings.Contains(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%q, want …%s…", got, want)
		}
	}
	b.Reset()
	zapTo(h, zapcore.ErrorLevel).Warn("hidden")
	if b.Len() > 0 {
		t.Errorf("below etcd's own level: %q", b.String())
	}
}
