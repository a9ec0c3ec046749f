# Growth is by learners only (I7, M1): registered all, started one after the other,
# a late one restarted once, promoted in sync and serving. A join that broke off
# anywhere is finished, never repeated (M2, M4, I8).

# M4: the driver died between add and start. The entry is adopted: no second add.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-2/member unstarted
----

next
----
RegisterLearner cp-1/member: 1 of 2 named nodes have a member

apply
----
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member unstarted notserving behind=0
member 101 learner on cp-2/member unstarted

next
----
StartMember cp-1/member 100: registered and not yet started

apply
----
want cp-1 cp-2
grant held
cp-1 answers member=running/up:100 seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member notserving behind=0
member 101 learner on cp-2/member unstarted

# It holds its lock and does not answer its peers yet: the next one waits.
also
cp-1 answers member=running/up:100,peerdown seed=running/serving:1
----

next
----
wait StartMember cp-1: PeerNotUp: it does not answer on its peer port yet; /version there

also
cp-1 answers member=running/up:100 seed=running/serving:1
----

next
----
StartMember cp-2/member 101: registered and not yet started

apply
----
want cp-1 cp-2
grant held
cp-1 answers member=running/up:100 seed=running/serving:1
cp-2 answers member=running/up:101
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member notserving behind=0
member 101 learner on cp-2/member

# cp-1's received a database, holds the leader's index and serves nobody.
also
member 100 learner on cp-1/member notserving atindex late
member 101 learner on cp-2/member notserving behind=48000
----

next
----
RestartLateMember cp-1/member 100: it holds the leader's index and still refuses clients

apply
----
want cp-1 cp-2
grant held
cp-1 answers member=running/up:100,late-restarted seed=running/serving:1
cp-2 answers member=running/up:101
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member notserving atindex
member 101 learner on cp-2/member notserving behind=48000

# Once is enough; now it is time's turn.
also
member 100 learner on cp-1/member notserving atindex late
----

next
----
wait PromoteLearner cp-1: NotServing: it does not serve clients yet; its client port answers (I7)
wait PromoteLearner cp-2: NotInSync: it is 48000 entries behind the leader; within 1000 entries (I7)

also
member 101 learner on cp-2/member notserving atindex
----

next
----
wait PromoteLearner cp-1: NotServing: it does not serve clients yet; its client port answers (I7)
wait PromoteLearner cp-2: NotServing: it does not serve clients yet; its client port answers (I7)

settle
----
want cp-1 cp-2
grant held
cp-1 answers member=running/serving:100,late-restarted seed=running/serving:1
cp-2 answers member=running/serving:101
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
member 101 learner on cp-2/member serves atindex

next
----
PromoteLearner cp-2/member 101: in sync (0 entries behind) and serving

# The process on a learner died half way, its directory cannot start. Removed
# first, retired second: an identity that ran never starts on nothing (I9).
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=part/down:101,why=torn-log
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-2/member unstarted notserving behind=5000
----

next
----
RemoveMember cp-2/member 101: a learner whose directory is part is removed and added anew

apply
----
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=part/down:101,why=torn-log
member 1 voter on cp-1/seed serves atindex leader

next
----
RetireDirectory cp-2/member 101: its directory is part and no member of the list: torn-log

apply
----
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader

next
----
RegisterLearner cp-1/member: 0 of 2 named nodes have a member

# A learner lost its disk: removed and added anew, never started on an empty one.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-2/member notserving behind=5000
----

next
----
RemoveMember cp-2/member 101: a learner that lost its directory is removed and added anew

# I11: the seed runs with etcd's default of one learner, or hides it. One at a
# time, the seed's own node last.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1,args=max-learners~1
cp-2 answers
cp-3 answers
member 1 voter on cp-1/seed serves atindex leader
----

route
----
RegisterLearner cp-2/member: 0 of 3 named nodes have a member
StartMember cp-2/member 101: registered and not yet started
wait PromoteLearner cp-2: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-2/member 101: in sync (0 entries behind) and serving
RegisterLearner cp-3/member: 1 of 3 named nodes have a member
StartMember cp-3/member 102: registered and not yet started
wait PromoteLearner cp-3: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-3/member 102: in sync (0 entries behind) and serving
RegisterLearner cp-1/member: 2 of 3 named nodes have a member
StartMember cp-1/member 100: registered and not yet started
wait PromoteLearner cp-1: NotInSync: its index is not known yet; within 1000 entries (I7)
ProveHashes: before anybody is routed away from the seed
RouteProxies: the proxy of cp-1 is not proven on a managed member; the seed drains
PromoteLearner cp-1/member 100: the member on the seed's own node, last
MoveLeader cp-1/member 100: the seed leads and is about to go
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out
StopMember cp-1/seed 1: 3 of 4 voters serve without it
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved
FinishTombstone 1: the list no longer names it
ProveHashes: every member, before a directory that nobody needs leaves its place
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

# A node was added to the spec when only the seed's own learner was there.
state
want cp-1 cp-2
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1,args=max-learners~1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member 100 learner on cp-1/member serves atindex
----

next
----
refuse RegisterLearner: ArgsDiffer: a running member's --max-learners is not 8 or not known, so learners join one at a time, and the one on the seed's node is promoted last; --max-learners=8 on every running member (I11)

check
RegisterLearner cp-2/member
----
refuse RegisterLearner cp-2: SameArgs: a running member's --max-learners is unknown or not the joiners'; max-learners=8 everywhere before a second learner (I11)
