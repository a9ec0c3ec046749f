# The guards are the second opinion: asked by hand for steps that no rule would
# choose, each says no with its number.

# In the middle of growth: cp-2 is a learner behind, cp-3 has nothing.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=running/up:101
cp-3 answers
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-2/member notserving behind=5000
----

check
PromoteLearner cp-2/member 101
MoveLeader cp-2/member 101
RestartLateMember cp-1/seed 1
StopMember cp-1/seed 1
RemoveMember cp-1/seed 1
RegisterLearner cp-3/member
----
refuse PromoteLearner cp-2: InSync: member 101 is not known to be in sync (I7)
refuse MoveLeader cp-2: InSync: member 101 is not known to be in sync (I7)
refuse RestartLateMember cp-1: LearnerOnly: member 1 is no learner (I2)
refuse StopMember cp-1: KeepsQuorum: 0 of 1 voters would serve; at least 1 (I2)
refuse RemoveMember cp-1: KeepsQuorum: 0 of 0 voters would serve; at least 1 (I2)
may RegisterLearner cp-3/member

# M13: one member for each name; and only names of the spec.
check
RegisterLearner cp-2/member
RegisterLearner cp-9/member
----
refuse RegisterLearner cp-2: SpecNames: member 101 is there already (I1)
refuse RegisterLearner cp-9: SpecNames: the spec does not name it (I1)

# In sync, and it does not serve.
also
member 101 learner on cp-2/member notserving atindex
----

check
PromoteLearner cp-2/member 101
----
refuse PromoteLearner cp-2: ServesClients: member 101 does not serve clients (I7)

# Everybody is there. No proof, no proxies, no tombstone, the seed leads.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1
cp-2 answers member=running/serving:101
cp-3 answers member=running/serving:102
member 1 voter on cp-1/seed serves atindex leader
member 100 voter on cp-1/member serves atindex
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
----

check
StopMember cp-1/seed 1
RetireDirectory cp-1/seed 1
----
refuse StopMember cp-1: HashesEqual: no equal hashes of all members at one revision; ProveHashes (I3)
refuse RetireDirectory cp-1: HashesEqual: no equal hashes of all members at one revision; ProveHashes (I3)

also
proof 1 101 102
----

check
StopMember cp-1/seed 1
----
refuse StopMember cp-1: ProxiesRouted: its proxy is not proven on a voter that stays; RouteProxies (I1)

also
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
----

check
StopMember cp-1/seed 1
RemoveMember cp-1/seed 1
----
refuse StopMember cp-1: LeaderElsewhere: it leads, or nobody is known to; MoveLeader (I2)
refuse RemoveMember cp-1: LeaderElsewhere: it leads, or nobody is known to; MoveLeader (I2)

also
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
----

check
StopMember cp-1/seed 1
RemoveMember cp-1/seed 1
RemoveMember cp-2/member 101
----
may StopMember cp-1/seed 1
refuse RemoveMember cp-1: Buried: no tombstone names it yet; WriteTombstone (I8)
refuse RemoveMember cp-2: SpecWants: the spec wants members, and voter 101 is part of that (I4)

also
tombstone 1 intended
----

check
RemoveMember cp-1/seed 1
----
may RemoveMember cp-1/seed 1
