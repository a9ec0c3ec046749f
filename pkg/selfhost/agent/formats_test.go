package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/child"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/agent/journal"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/datadir"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/durable"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/member"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/pki"
	"github.com/etcd-selfhost/etcd-selfhost/pkg/selfhost/wire"
)

// firstFormat puts every file that the first format's pivoted node i left
// (testdata/v1: the first of three nodes, and a further one) in node i's place.
func (r *rig) firstFormat(i int) {
	r.t.Helper()
	id := r.ids[i]
	from := filepath.Join("testdata", "v1", id.Node.Name)
	places := map[string]string{"state": id.StateDir, "data": id.DataDir, "bundle.json": filepath.Join(filepath.Dir(id.StateDir), "bundle.json")}
	words := strings.NewReplacer("@ROOT@/"+id.Node.Name+"/data", id.DataDir, "@ROOT@/"+id.Node.Name+"/state", id.StateDir,
		"@ROOT@/"+id.Node.Name+"/pki/etcd", id.PKIDir, "127.77.0.", strings.TrimSuffix(r.ids[0].Node.Address, "11"))
	r.must(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		top, rest, _ := strings.Cut(rel, string(filepath.Separator))
		to := filepath.Join(places[top], rest)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if filepath.Base(path) == wire.FileJournal { // its lines carry checksums, and name no place
			return os.WriteFile(to, b, 0o600)
		}
		return os.WriteFile(to, []byte(words.Replace(string(b))), 0o600)
	}))
}

// An agent starts on what the first release stored: it reads all of it, and
// rewrites what has a newer format, once, with the old copy kept.
func TestStartsOnTheFirstFormat(t *testing.T) {
	r := newRig(t, 2)
	for i := range r.ids {
		r.firstFormat(i)
	}
	path := r.ids[0].State(wire.FileSlots)
	before, err := os.ReadFile(path)
	r.must(err)
	for range 2 {
		r.start(0)
		o := r.observe(0)
		m := o.SlotOf(wire.SlotMember)
		if o.Epoch.Number != 1 || o.Epoch.ClusterID == 0 || o.Spec == nil || len(o.Spec.Nodes) != 3 || o.Spec.Target != wire.TargetMembers ||
			o.Fence.Number != 1 || o.Fence.HolderName == "" || len(o.Tombstones) != 1 || o.Tombstones[0].Phase != wire.TombFinal ||
			!m.Wanted || m.Assigned == 0 || !o.SlotOf(wire.SlotSeed).Parked {
			t.Errorf("%+v", o)
		}
		r.end(0)
	}
	if kept, err := os.ReadFile(path + ".v1"); err != nil || !bytes.Equal(kept, before) {
		t.Errorf("the old copy: %s, %v", kept, err)
	}
	var now slotsFile
	r.must(durable.ReadJSON(path, slotsFormat.V, &now))
	if now.V != 2 || len(now.Slots[wire.SlotMember].Args) == 0 {
		t.Errorf("%+v", now)
	}
	j, err := journal.Open(r.ids[0].State(wire.FileJournal), "cp-1")
	r.must(err)
	defer j.Close()
	told := 0
	for _, e := range j.Last(0) {
		if e.Step == "MigrateState" && strings.Contains(e.Evidence, "slots.json.v1") {
			told++
		}
	}
	if first := j.Last(0)[0]; told != 1 || first.Seq != 1 {
		t.Errorf("journaled %d times, the journal begins with %+v", told, first)
	}
	if notes, err := datadir.Notes(r.ids[0]); err != nil || len(notes) != 1 {
		t.Errorf("attic: %v %v", notes, err)
	}
	// The further node's bundle is spent, and known to be.
	if _, err := pki.UnpackFile(filepath.Join(filepath.Dir(r.ids[1].StateDir), "bundle.json"), r.ids[1], time.Now()); err == nil || !strings.Contains(err.Error(), "was used on 20") {
		t.Errorf("spent bundle: %v", err)
	}
}

// A restart that the first release began is finished; one of another boot is no
// reason to end a process that happens to have number and ticks of the old.
func TestRestartIntents(t *testing.T) {
	r := newRig(t, 1)
	r.firstFormat(0)
	path := r.ids[0].State(wire.FileSlots)
	b, err := os.ReadFile(path)
	r.must(err)
	b = bytes.Replace(b, []byte(`"recorded": true,`), []byte(`"recorded": true, "lateRestarts": 1, "restart": {"pid": 7, "ticks": 8},`), 1)
	r.must(os.WriteFile(path, b, 0o600))
	s, err := openStore(r.ids[0])
	r.must(err)
	if in := s.slot(wire.SlotMember).Restart; in == nil || *in != (restartIntent{PID: 7, Ticks: 8}) {
		t.Fatalf("%+v", in)
	}
	me := os.Getpid()
	first := restartIntent{PID: me, Ticks: child.StartTicks(me)}
	here, elsewhere := *intentFor(me), *intentFor(me)
	elsewhere.Boot = "another boot"
	if !first.names(me) || !here.names(me) || elsewhere.names(me) || here.names(me+1) {
		t.Errorf("%+v %+v %+v", first, here, elsewhere)
	}
}

var versionField = regexp.MustCompile(`"v": ?\d+`)

// Every kind of stored file in a newer format is refused with its name and both
// versions, and left as it is.
func TestNewerFormatsAreRefused(t *testing.T) {
	agentReads := func(r *rig) error { // as far as an agent gets; it never serves
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return Run(ctx, Config{StateDir: r.ids[1].StateDir, Logger: testLog(t), Ready: cancel})
	}
	state := func(name string) func(wire.Identity) string {
		return func(id wire.Identity) string { return id.State(name) }
	}
	bundle := func(id wire.Identity) string { return filepath.Join(filepath.Dir(id.StateDir), "bundle.json") }
	unpack := func(r *rig) error { _, err := pki.UnpackFile(bundle(r.ids[1]), r.ids[1], time.Now()); return err }
	targets := func(r *rig) error { _, _, err := (&Agent{id: r.ids[1]}).readTargets(); return err }
	for name, tc := range map[string]struct {
		path func(wire.Identity) string
		read func(*rig) error
	}{
		"identity":           {state(wire.FileIdentity), agentReads},
		"epoch":              {state(wire.FileEpoch), agentReads},
		"spec":               {state(wire.FileSpec), agentReads},
		"fence":              {state(wire.FileFence), agentReads},
		"slots":              {state(wire.FileSlots), agentReads},
		"tombstones":         {state(wire.FileTombstones), agentReads},
		"journal":            {state(wire.FileJournal), agentReads},
		"gate":               {func(id wire.Identity) string { return id.SlotGate(wire.SlotMember) }, agentReads},
		"gate, agent's copy": {func(id wire.Identity) string { return member.GateCopy(id, wire.SlotMember) }, agentReads},
		"gate, at the start of etcd": {func(id wire.Identity) string { return id.SlotGate(wire.SlotMember) }, func(r *rig) error {
			return member.Run(t.Context(), member.Options{StateDir: r.ids[1].StateDir, Slot: wire.SlotMember,
				Args: []string{"--data-dir=" + r.ids[1].SlotDir(wire.SlotMember)}, Log: testLog(t)})
		}},
		"targets":     {state(wire.FileTargets), targets},
		"bundle":      {bundle, unpack},
		"bundle used": {state(pki.FileBundle), unpack},
		"attic note": {func(id wire.Identity) string { return filepath.Join(id.Attic(), "20300102T030405Z-seed-1.json") },
			func(r *rig) error { _, err := datadir.Notes(r.ids[1]); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2)
			r.firstFormat(1)
			path := tc.path(r.ids[1])
			if name == "attic note" {
				r.must(os.MkdirAll(r.ids[1].Attic(), 0o700))
				r.must(os.WriteFile(path, []byte(`{"v": 1}`), 0o600))
			}
			b, err := os.ReadFile(path)
			r.must(err)
			if name == "journal" {
				b = newerEntry(t, b)
			} else {
				b = versionField.ReplaceAll(b, []byte(`"v": 99`))
			}
			r.must(os.WriteFile(path, b, 0o600))
			err = tc.read(r)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "version 99, this binary reads 1 to ") {
				t.Errorf("got %v, want %s and both versions", err, path)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
				t.Errorf("the refused file was changed (%v)", err)
			}
		})
	}
}

// newerEntry gives the journal's last line version 99 and a checksum that fits.
func newerEntry(t *testing.T, b []byte) []byte {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	last := lines[len(lines)-1]
	last = strings.Replace(last[:len(last)-9], `"v":1`, `"v":99`, 1)
	if !json.Valid([]byte(last)) {
		t.Fatal(last)
	}
	lines[len(lines)-1] = fmt.Sprintf("%s %08x", last, crc32.Checksum([]byte(last), crc32.MakeTable(crc32.Castagnoli)))
	return []byte(strings.Join(lines, "\n") + "\n")
}
