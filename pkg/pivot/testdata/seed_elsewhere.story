# The seed stands on a node that the spec does not name (a bootstrap host): all
# members are promoted before it goes, it is stopped, removed and retired there,
# and its silence is no less a silence for that (I3, I4, M12).

state
want cp-2 cp-3 cp-4
grant held
cp-2 answers
cp-3 answers
cp-4 answers
cp-1 answers seed=running/serving:1
member 1 voter on cp-1/seed serves atindex leader
----

route
----
RegisterLearner cp-2/member: 0 of 3 named nodes have a member
RegisterLearner cp-3/member: 1 of 3 named nodes have a member
RegisterLearner cp-4/member: 2 of 3 named nodes have a member
StartMember cp-2/member 100: registered and not yet started
StartMember cp-3/member 101: registered and not yet started
StartMember cp-4/member 102: registered and not yet started
wait PromoteLearner cp-2: NotInSync: its index is not known yet; within 1000 entries (I7)
wait PromoteLearner cp-3: NotInSync: its index is not known yet; within 1000 entries (I7)
wait PromoteLearner cp-4: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-2/member 100: in sync (0 entries behind) and serving
PromoteLearner cp-3/member 101: in sync (0 entries behind) and serving
PromoteLearner cp-4/member 102: in sync (0 entries behind) and serving
ProveHashes: before anybody is routed away from the seed
RouteProxies: the proxy of cp-2 is not proven on a managed member; the seed drains
MoveLeader cp-2/member 100: the seed leads and is about to go
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out
StopMember cp-1/seed 1: 3 of 4 voters serve without it
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved
FinishTombstone 1: the list no longer names it
RouteProxies: the proxy of cp-2 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

also
cp-1 silent
----

next
----
refuse WriteSpec cp-1: NodeSilent: its agent does not answer; start its agent, or check the network to its agent port (I4)
