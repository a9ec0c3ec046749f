package pivot

import (
	"fmt"
	"strconv"
	"strings"
)

// The compact form of a State in stories, one fact a line:
//
//	want cp-1 cp-2 cp-3 [forget=ID]      or: want seed cp-1, want nothing
//	grant held | free | unknown | by NAME
//	cp-1 answers [spec=no] member=CLASS/PROC[:ID][,FLAG…] seed=… [proxy=routed]
//	cp-2 silent [WHY…]
//	unfit cp-1 WORDS…
//	disk cp-1 FREE MiB (not written: unknown)
//	db SIZE MiB (not written: unknown)
//	list unknown
//	cluster founded (not written: founded where the list is known)
//	unstarted voter ID URL never started
//	member ID voter|learner on cp-1/seed | on URL [FLAG…] [leader]
//	tombstone ID intended|partial|final
//	proof ID… | proof differ WORDS…
//
// A slot that is not written is absent/down. Flags of a slot: peerdown, parked,
// late-restarted, args=VALUE, assigned=ID, why=WORD, kept, ended=WORD. Flags of a member: serves, notserving (neither:
// unknown), atindex, behind=N, unstarted, late, settled, unsettled, clients, noclients.

func parseState(text string) (State, error) {
	s := State{ListKnown: true}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if err := parseFact(&s, f); err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	if !strings.Contains(text, "cluster ") {
		s.Founded = s.ListKnown
	}
	s.Normalize()
	return s, nil
}

func parseFact(s *State, f []string) error {
	if len(f) < 2 {
		return fmt.Errorf("a fact has two words or more")
	}
	switch f[0] {
	case "want":
		return parseWant(s, f[1:])
	case "grant":
		switch f[1] {
		case "held":
			s.Grant.Held = Yes
		case "free":
			s.Grant.Held = No
		case "by":
			s.Grant = Grant{Held: No, By: strings.Join(f[2:], " ")}
		}
	case "list":
		s.ListKnown = false
	case "cluster":
		s.Founded = f[1] == "founded"
	case "unstarted":
		s.Unstarted = append(s.Unstarted, strings.Join(f[1:], " "))
	case "unfit":
		n := s.Node(f[1])
		if n == nil {
			return fmt.Errorf("unfit comes after its node")
		}
		n.Unfit = strings.Join(f[2:], " ")
	case "db":
		n, err := parseMiB(f[1])
		s.DBSize = n
		return err
	case "disk":
		n, err := s.Node(f[1]), error(nil)
		if n == nil || len(f) < 3 {
			return fmt.Errorf("disk comes after its node, and says how much is free")
		}
		n.Disk.Known = true
		n.Disk.Free, err = parseMiB(f[2])
		return err
	case "member":
		return parseMember(s, f[1:])
	case "tombstone":
		id, err := parseID(f[1])
		s.Tombstones = append(s.Tombstones, Tombstone{ID: id, Final: len(f) > 2 && f[2] == "final", Partial: len(f) > 2 && f[2] == "partial"})
		return err
	case "proof":
		if f[1] == "differ" {
			s.Proof.Differ = strings.Join(f[2:], " ")
			return nil
		}
		for _, w := range f[1:] {
			id, err := parseID(w)
			if err != nil {
				return err
			}
			s.Proof.Members = append(s.Proof.Members, id)
		}
	default:
		return parseNode(s, f)
	}
	return nil
}

func parseMiB(w string) (int64, error) {
	n, err := strconv.ParseInt(w, 10, 64)
	return n << 20, err
}

func parseID(w string) (MemberID, error) {
	n, err := strconv.ParseUint(w, 16, 64)
	return MemberID(n), err
}

func parseWant(s *State, f []string) error {
	s.Want.Target = TargetMembers
	switch f[0] {
	case "nothing":
		s.Want.Target = TargetUnknown
		return nil
	case "seed":
		s.Want.Target, f = TargetSeed, f[1:]
	}
	for _, w := range f {
		if rest, ok := strings.CutPrefix(w, "forget="); ok {
			id, err := parseID(rest)
			if err != nil {
				return err
			}
			s.Want.Forget = append(s.Want.Forget, id)
			continue
		}
		s.Want.Nodes = append(s.Want.Nodes, w)
	}
	return nil
}

func parseNode(s *State, f []string) error {
	n := Node{Name: f[0]}
	switch f[1] {
	case "silent":
		n.Agent, n.Why = Silent, strings.Join(f[2:], " ")
		s.Nodes = append(s.Nodes, n)
		return nil
	case "answers":
	default:
		return fmt.Errorf("a node answers or is silent")
	}
	n.Agent, n.SpecCurrent, n.Proxy = Answers, Yes, Proxy{Routed: No}
	n.Member, n.Seed = Slot{Class: Absent, Proc: Down, PeerUp: No}, Slot{Class: Absent, Proc: Down, PeerUp: No}
	for _, w := range f[2:] {
		key, val, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "spec":
			n.SpecCurrent = tri(val != "no")
		case "member":
			err = parseSlot(&n.Member, val)
		case "seed":
			err = parseSlot(&n.Seed, val)
		case "proxy":
			n.Proxy = Proxy{Routed: tri(val == "routed")}
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return err
		}
	}
	s.Nodes = append(s.Nodes, n)
	return nil
}

// enum finds a value by the word its String gives.
func enum[T interface {
	~uint8
	fmt.Stringer
}](word string, last T) (T, error) {
	for v := T(0); v <= last; v++ {
		if v.String() == word {
			return v, nil
		}
	}
	return 0, fmt.Errorf("unknown word %q", word)
}

func parseSlot(sl *Slot, text string) (err error) {
	words := strings.Split(text, ",")
	head, id, _ := strings.Cut(words[0], ":")
	class, proc, _ := strings.Cut(head, "/")
	if sl.Class, err = enum(class, Running); err != nil {
		return err
	}
	if proc == "" {
		proc = "down"
	}
	if sl.Proc, err = enum(proc, Serving); err != nil {
		return err
	}
	if id != "" {
		if sl.ID, err = parseID(id); err != nil {
			return err
		}
	}
	if sl.Class == Running {
		sl.PeerUp, sl.Args, sl.Assigned = Yes, JoinerArgs, sl.ID
	}
	for _, w := range words[1:] {
		key, val, _ := strings.Cut(w, "=")
		switch key {
		case "peerdown":
			sl.PeerUp = No
		case "parked":
			sl.Parked = true
		case "late-restarted":
			sl.LateRestarted = true
		case "args":
			sl.Args = strings.ReplaceAll(val, "~", "=")
		case "assigned":
			sl.Assigned, err = parseID(val)
		case "why":
			sl.Reason = val
		case "kept":
			sl.Kept = true
		case "ended":
			sl.Ended = val
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
	}
	return err
}

func parseMember(s *State, f []string) (err error) {
	m := Member{Started: Yes}
	if m.ID, err = parseID(f[0]); err != nil {
		return err
	}
	if m.Role, err = enum(f[1], Voter); err != nil {
		return err
	}
	for i := 2; i < len(f); i++ {
		key, val, _ := strings.Cut(f[i], "=")
		switch key {
		case "on":
			i++
			if strings.HasPrefix(f[i], "https://") {
				m.URL = f[i]
				break
			}
			node, slot, _ := strings.Cut(f[i], "/")
			m.Node, m.Slot = node, SlotName(slot)
		case "serves":
			m.Serves = Yes
		case "notserving":
			m.Serves = No
		case "atindex":
			m.AtIndex = Yes
		case "behind":
			m.AtIndex = No
			m.Lag, err = strconv.ParseUint(val, 10, 64)
		case "unstarted":
			m.Started = No
		case "late":
			m.Late = Yes
		case "settled", "unsettled":
			m.Settled = tri(key == "settled")
		case "clients", "noclients":
			m.Clients = tri(key == "clients")
		case "leader":
			s.Leader = m.ID
		default:
			err = fmt.Errorf("unknown word %q", f[i])
		}
	}
	s.Members = append(s.Members, m)
	return err
}

// compact is the inverse of parseState.
func compact(s State) string {
	var b strings.Builder
	want := map[Target]string{TargetUnknown: "want nothing", TargetSeed: "want seed ", TargetMembers: "want "}[s.Want.Target]
	b.WriteString(want + strings.Join(s.Want.Nodes, " "))
	for _, id := range s.Want.Forget {
		b.WriteString(" forget=" + id.String())
	}
	grant := map[Tri]string{Yes: "held", No: "free", Unknown: "unknown"}[s.Grant.Held]
	if s.Grant.By != "" {
		grant = "by " + s.Grant.By
	}
	b.WriteString("\ngrant " + grant + "\n")
	for _, n := range s.Nodes {
		b.WriteString(compactNode(n))
		if n.Unfit != "" {
			b.WriteString("unfit " + n.Name + " " + n.Unfit + "\n")
		}
		if n.Disk.Known {
			fmt.Fprintf(&b, "disk %s %d MiB\n", n.Name, n.Disk.Free>>20)
		}
	}
	if s.DBSize > 0 {
		fmt.Fprintf(&b, "db %d MiB\n", s.DBSize>>20)
	}
	if !s.ListKnown {
		b.WriteString("list unknown\n")
	}
	if s.Founded != s.ListKnown {
		b.WriteString(map[bool]string{true: "cluster founded\n", false: "cluster new\n"}[s.Founded])
	}
	for _, u := range s.Unstarted {
		b.WriteString("unstarted " + u + "\n")
	}
	for _, m := range s.Members {
		b.WriteString(compactMember(m, m.ID == s.Leader))
	}
	for _, t := range s.Tombstones {
		phase := "intended"
		switch {
		case t.Final:
			phase = "final"
		case t.Partial:
			phase = "partial"
		}
		fmt.Fprintf(&b, "tombstone %s %s\n", t.ID, phase)
	}
	if len(s.Proof.Members) > 0 {
		b.WriteString("proof")
		for _, id := range s.Proof.Members {
			b.WriteString(" " + id.String())
		}
		b.WriteString("\n")
	}
	if s.Proof.Differ != "" {
		b.WriteString("proof differ " + s.Proof.Differ + "\n")
	}
	return b.String()
}

func compactNode(n Node) string {
	if n.Agent != Answers {
		return strings.TrimSpace(n.Name+" silent "+n.Why) + "\n"
	}
	out := n.Name + " answers"
	if n.SpecCurrent != Yes {
		out += " spec=no"
	}
	out += compactSlot(" member=", n.Member) + compactSlot(" seed=", n.Seed)
	if n.Proxy.Routed == Yes {
		out += " proxy=routed"
	}
	return out + "\n"
}

func compactSlot(key string, sl Slot) string {
	if sl == (Slot{Class: Absent, Proc: Down, PeerUp: No}) {
		return ""
	}
	out := key + sl.Class.String() + "/" + sl.Proc.String()
	if sl.ID != 0 {
		out += ":" + sl.ID.String()
	}
	if sl.Class == Running && sl.PeerUp != Yes {
		out += ",peerdown"
	}
	if sl.Parked {
		out += ",parked"
	}
	if sl.LateRestarted {
		out += ",late-restarted"
	}
	if sl.Class == Running && sl.Args != JoinerArgs {
		out += ",args=" + strings.ReplaceAll(sl.Args, "=", "~")
	}
	if sl.Assigned != 0 && sl.Assigned != sl.ID || sl.Class == Running && sl.Assigned == 0 && sl.ID != 0 {
		out += ",assigned=" + sl.Assigned.String()
	}
	if sl.Reason != "" {
		out += ",why=" + sl.Reason
	}
	if sl.Kept {
		out += ",kept"
	}
	if sl.Ended != "" {
		out += ",ended=" + sl.Ended
	}
	return out
}

func compactMember(m Member, leader bool) string {
	where := m.Node + "/" + string(m.Slot)
	if m.Node == "" {
		where = m.URL
	}
	out := fmt.Sprintf("member %s %s on %s", m.ID, m.Role, where)
	if m.Started != Yes {
		out += " unstarted"
	}
	switch m.Serves {
	case Yes:
		out += " serves"
	case No:
		out += " notserving"
	}
	switch m.AtIndex {
	case Yes:
		out += " atindex"
	case No:
		out += fmt.Sprintf(" behind=%d", m.Lag)
	}
	if m.Late == Yes {
		out += " late"
	}
	switch m.Settled {
	case Yes:
		out += " settled"
	case No:
		out += " unsettled"
	}
	switch m.Clients {
	case Yes:
		out += " clients"
	case No:
		out += " noclients"
	}
	if leader {
		out += " leader"
	}
	return out + "\n"
}
