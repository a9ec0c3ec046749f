# Who may drive: a grant at a majority of the voters' nodes and of the desired
# nodes, then the spec at every agent, then anything else. (I1, I4)

state
want cp-1 cp-2 cp-3
grant free
cp-1 answers spec=no seed=running/serving:1
cp-2 answers spec=no
cp-3 answers spec=no
member 1 voter on cp-1/seed serves atindex leader
----

next
----
TakeGrant: before RegisterLearner cp-1/member

also
grant by op-2@cp-2 until 14:03:07
----

next
----
wait TakeGrant: GrantHeld: another driver holds the grant: op-2@cp-2 until 14:03:07; it ends, or its grant runs out

also
grant free
----

next
----
TakeGrant: before RegisterLearner cp-1/member

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers spec=no seed=running/serving:1
cp-2 answers spec=no
cp-3 answers spec=no
member 1 voter on cp-1/seed serves atindex leader

next
----
WriteSpec: cp-1 does not store the wanted spec yet

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
cp-3 answers
member 1 voter on cp-1/seed serves atindex leader

next
----
RegisterLearner cp-1/member: 0 of 3 named nodes have a member

# A driver that was killed lost its grant and its proof, nothing else: the next
# one takes the grant, proves again, goes on. (I8)
state
want cp-1 cp-2 cp-3
grant free
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers member=running/serving:102 proxy=routed
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member serves atindex
----

route
----
TakeGrant: before ProveHashes
ProveHashes: before anybody is routed away from the seed
WriteTombstone cp-1/seed 1: its removal is decided; a restart finds that out
StopMember cp-1/seed 1: 3 of 4 voters serve without it
RemoveMember cp-1/seed 1: every proxy is on members, hashes are equal, leadership is moved
FinishTombstone 1: the list no longer names it
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
RetireDirectory cp-1/seed 1: its member is removed and every voter is proved
Done: every named node has a voter that serves, no seed is left

# After a power cut one agent of three is back, with a directory to start: no
# majority, no driver. The agent itself restarts its own member.
state
want cp-1 cp-2 cp-3
grant free
cp-1 answers member=whole/down:100
cp-2 silent no route to host
cp-3 silent no route to host
list unknown
----

next
----
refuse TakeGrant: NoMajority: silent: cp-2, cp-3; the agents of a majority of the voters and of a majority of the desired nodes (I4)
