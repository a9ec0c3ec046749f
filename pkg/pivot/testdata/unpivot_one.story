# Back to one seed from one member, and from two: with so few voters the seed is
# promoted beside its own node's member, since the others could not carry the list
# without that one (I2).

state
want seed cp-1
grant free
cp-1 answers spec=no member=running/serving:101 proxy=routed
member 101 voter on cp-1/member serves atindex leader settled clients
----

route
----
TakeGrant: before RegisterLearner cp-1/seed
WriteSpec: cp-1 does not store the wanted spec yet
RegisterLearner cp-1/seed: the seed to be, a learner beside 1 voters
StartSeed cp-1/seed 100: registered and not yet started
wait PromoteLearner cp-1: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-1/seed 100: the seed, in sync (0 entries behind) and serving
ProveHashes: before any of them goes
RouteProxies: the proxy of cp-1 is not proven on a voter that stays, with what goes draining
MoveLeader cp-1/seed 100: the seed is to be the only voter
WriteTombstone cp-1/member 101: its removal is decided; a restart finds that out
RemoveMember cp-1/member 101: the seed leads and serves every proxy, hashes are equal
FinishTombstone 101: the list no longer names it
StopMember cp-1/member 101: the list no longer names it
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/member 101: its member is removed and every voter is proved
Done: the seed serves and is the only member; `bootstrap pivot` makes managed members of it

# The seed was started a moment ago: two voters would stand alone until etcd
# allows the removal, so the promotion waits.
state
want seed cp-1
grant held
cp-1 answers member=running/serving:101 seed=running/serving:201 proxy=routed
member 101 voter on cp-1/member serves atindex leader settled clients
member 201 learner on cp-1/seed serves atindex unsettled
----

next
----
wait PromoteLearner cp-1: NotSettled: learner 201 has run for a few seconds only, and etcd would refuse the removal that comes after; 6 s, so that two voters stand alone for a moment only (I2)

settle
----
want seed cp-1
grant held
cp-1 answers member=running/serving:101 seed=running/serving:201 proxy=routed
member 101 voter on cp-1/member serves atindex settled clients leader
member 201 learner on cp-1/seed serves atindex settled

next
----
PromoteLearner cp-1/seed 201: the seed, in sync (0 entries behind) and serving

state
want seed cp-2 cp-1
grant free
cp-2 answers spec=no member=running/serving:102 proxy=routed
cp-1 answers spec=no member=running/serving:101 proxy=routed
member 101 voter on cp-1/member serves atindex leader settled clients
member 102 voter on cp-2/member serves atindex settled clients
----

route
----
TakeGrant: before RegisterLearner cp-2/seed
WriteSpec: cp-2 does not store the wanted spec yet
RegisterLearner cp-2/seed: the seed to be, a learner beside 2 voters
StartSeed cp-2/seed 100: registered and not yet started
wait PromoteLearner cp-2: NotInSync: its index is not known yet; within 1000 entries (I7)
PromoteLearner cp-2/seed 100: the seed, in sync (0 entries behind) and serving
ProveHashes: before any of them goes
RouteProxies: the proxy of cp-2 is not proven on a voter that stays, with what goes draining
MoveLeader cp-2/seed 100: the seed is to be the only voter
RestartMember cp-1/member 101: its clients go to the seed while 2 of 3 voters serve; once there are two voters it could only be cut off
wait RemoveMember cp-1: NotServing: voter 101 does not serve clients; its client port answers, before any other voter goes (I2)
WriteTombstone cp-2/member 102: its removal is decided; a restart finds that out
StopMember cp-2/member 102: 2 of 3 voters serve without it
RemoveMember cp-2/member 102: the seed leads and serves every proxy, hashes are equal
FinishTombstone 102: the list no longer names it
RouteProxies: the proxy of cp-2 is not proven on a voter that stays, with what goes draining
WriteTombstone cp-1/member 101: its removal is decided; a restart finds that out
RemoveMember cp-1/member 101: the seed leads and serves every proxy, hashes are equal
FinishTombstone 101: the list no longer names it
StopMember cp-1/member 101: the list no longer names it
RouteProxies: the proxy of cp-2 has other targets than the members of the list, or none admitted
RetireDirectory cp-2/member 102: its member is removed and every voter is proved
RetireDirectory cp-1/member 101: its member is removed and every voter is proved
Done: the seed serves and is the only member; `bootstrap pivot` makes managed members of it
