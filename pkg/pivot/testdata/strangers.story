# Members are IDs. What is not understood is refused, never removed, and beside it
# no membership step is taken (I4, etcd-operator#1366; M1, M2, M3).

# M2: a learner that never started, at an address of no named node.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member ee learner on https://127.0.0.1:29999 unstarted
----

next
----
refuse RemoveMember: ForeignMember: learner ee https://127.0.0.1:29999 never started, and its address is no named node's; when it will never come: --forget-learner ee (I4)

check
RegisterLearner cp-2/member
RemoveMember 1
----
refuse RegisterLearner cp-2: NoForeignMember: member ee https://127.0.0.1:29999 is nobody's (I4)
refuse RemoveMember: NoForeignMember: member ee https://127.0.0.1:29999 is nobody's (I4)

# A person declared it gone, by ID: exactly that one goes, the growth goes on.
also
want cp-1 cp-2 forget=ee
----

next
----
RemoveMember ee: learner ee https://127.0.0.1:29999 never started and a person declared it gone

apply
----
want cp-1 cp-2 forget=ee
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader

next
----
RegisterLearner cp-1/member: 0 of 2 named nodes have a member

# Not while a node is silent: its word may be the one that matters.
also
want cp-1 cp-2 forget=ee
cp-2 silent
member ee learner on https://127.0.0.1:29999 unstarted
----

next
----
refuse WriteSpec cp-2: NodeSilent: its agent does not answer; start its agent, or check the network to its agent port (I4)

# A learner that has started is no longer for forgetting.
also
cp-2 answers
member ee learner on https://127.0.0.1:29999 serves
----

next
----
refuse RemoveMember: ForeignMember: learner ee https://127.0.0.1:29999 is on no node the spec names; name its node in the spec, or remove it by ID (I4)

# M1: somebody added a voter at an address that nobody serves. It is named, and
# not ours to remove.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
member 1 voter on cp-1/seed serves atindex leader
member ee voter on https://127.0.0.1:29999 unstarted
----

next
----
refuse RemoveMember: ForeignMember: voter ee https://127.0.0.1:29999 never started, and its address is no named node's; name its node in the spec, or remove it by ID (I4)

# A whole directory starts beside a stranger all the same (I9).
also
cp-2 answers member=whole/down:101
member 101 learner on cp-2/member notserving behind=3
----

next
----
StartMember cp-2/member 101: its directory is whole, its process is down

# A member on a node that the spec does not name.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
cp-9 answers member=running/serving:109
member 1 voter on cp-1/seed serves atindex leader
member 109 voter on cp-9/member serves atindex
----

next
----
refuse RemoveMember cp-9: MemberNotNamed: voter 109 on cp-9, which the spec does not name; name the node, or remove the member by ID (I4)

# The same as it is found a moment later: with two voters and one of them never
# started nobody is elected, and no wait ends that. The list that the seed still
# serves says who is missing (M1, I2).
state
want seed cp-1
cp-1 answers seed=running/up:1
list unknown
unstarted voter ee https://127.0.0.1:29999 never started
----

next
----
refuse RegisterLearner: UnstartedVoter: voter ee https://127.0.0.1:29999 never started, and without it no leader is elected; start that member where its address says, or rebuild the seed from its data without it (I2)

state
want cp-1 cp-2
grant held
cp-1 answers seed=running/up:1
cp-2 answers
list unknown
unstarted voter ee https://127.0.0.1:29999 never started
----

next
----
refuse RegisterLearner: UnstartedVoter: voter ee https://127.0.0.1:29999 never started, and without it no leader is elected; start that member where its address says, or rebuild the seed from its data without it (I2)
