// Package pivot is the brain: it decides, from evidence alone, the one next
// step that carries an etcd from a seed to managed members and keeps it there.
//
// [Next] is a pure function of [State]: no clock, no I/O, no logger, no
// context. Unknown is a value: a node that does not answer is silent, never
// dead or empty. A [Decision] is one [Step] with its reason, or named
// [Refusal]s; [Apply] is the world after a step that worked, and serves the
// walk, the dry run and the check after each step.
//
// # Invariants
//
// Guards, tests and messages cite them by number.
//
//	I1  One cluster: never two sets of members that accept writes under this
//	    cluster's name and can reach each other, an agent of each other, or the archive.
//	I2  No step takes voters below quorum, counting registered-but-down voters as lost votes.
//	I3  The newest copy of the data is never destroyed or overwritten; retiring is renaming.
//	I4  Silence is not death: nothing irreversible follows from Unknown.
//	I5  An acknowledged write survives whenever a surviving disk or the archive holds it.
//	I6  Watchers never see time run backwards.
//	I7  Growth is by learners only; no learner is counted, routed to or promoted before it
//	    is in sync, judged from one look.
//	I8  A step half done is found and finished (or undone) by the next look; nothing depends
//	    on who did it.
//	I9  A whole directory of the current epoch and of this node's recorded identity just starts.
//	I10 What cannot be read is an error with its cause, never an empty default.
//	I11 What takes part in apply (--max-learners) is one value on every member.
//
// # Order of a pivot
//
// The order was found by experiment; each line is one or more steps.
//
//	grant and spec at the joint majorities
//	register every learner, then start each when the one before answers on its peer port
//	restart a learner that holds the leader's index and still serves nobody, once, as a learner
//	wait until all are in sync and serve clients
//	promote all but the member on the seed's own node (two voters on one machine)
//	prove equal hashes at one revision; route new connections to members
//	promote the last one, then at once hold the proxies and move leadership
//	tombstone, stop the seed, remove it, read the removal, make the tombstone final
//	prove again with the last member, route without the seed, retire the seed's directory
//
// A pivot of one removes the seed before it is stopped: with two voters,
// stopping one first would stop writes (I2).
//
// # Order of an unpivot
//
// The way back ends in the state a pivot begins with: one seed, same epoch, its
// recorded seed ID still that of the seed which made the cluster.
//
//	grant and spec (target seed, its node first) at the joint majorities
//	retire an old seed's directory on that node, every voter proved
//	register the seed as a learner of the live list, start it, restart it late
//	wait until it is in sync and serves clients
//	prove the voters; drain the member on the seed's own node, hand over its leadership
//	tombstone, stop, remove it, read the removal: never two voters on one machine
//	promote the seed, prove it with the others, route new connections to it, move leadership
//	at three voters restart the last to leave: its clients go to the seed by GOAWAY, since
//	in a list of two it can only be removed first, under its clients
//	wait until etcd would allow the last removal (5 s of connection), while one may still fail
//	each member: tombstone, stop and remove, or remove and stop, read the removal
//	route to the seed alone, retire every member's directory
//
// With one or two voters the seed is promoted before its own node's member goes,
// since the others could not carry the list without that one.
//
// Either way a person may turn round at any point: learners that the target has
// no place for are removed, intended tombstones of wanted members withdrawn,
// parked ones started again (I8).
package pivot
