package member

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapTo makes a zap logger whose lines go to a slog handler, from level up.
// Zap's own Fatal still ends the process, after the line is written.
func zapTo(h slog.Handler, level zapcore.Level) *zap.Logger {
	return zap.New(&slogCore{handler: h, level: level})
}

// slogCore is a zapcore.Core over a slog.Handler.
type slogCore struct {
	handler slog.Handler
	level   zapcore.Level
}

func (c *slogCore) Enabled(l zapcore.Level) bool {
	return l >= c.level && c.handler.Enabled(context.Background(), slogLevel(l))
}

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{handler: c.handler.WithAttrs(attrs(fields)), level: c.level}
}

func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, 0)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (c *slogCore) Sync() error { return nil }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.ErrorLevel:
		return slog.LevelError
	}
	return slog.LevelError + 4 // panic and fatal: the process ends
}

// attrs keeps the fields' order; one field may make several keys.
func attrs(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
			delete(enc.Fields, f.Key)
		}
		for k, v := range enc.Fields {
			if k != f.Key+"Verbose" { // an error's stack
				out = append(out, slog.Any(k, v))
			}
		}
	}
	return out
}
