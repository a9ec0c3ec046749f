# Silence is not death (I4): one of three nodes is unreachable. It is named, and
# nothing that cannot be undone happens; what is whole still starts (I9).

state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
cp-3 silent dial tcp 10.0.0.3:2382: i/o timeout
member 1 voter on cp-1/seed serves atindex leader
----

next
----
refuse WriteSpec cp-3: NodeSilent: its agent does not answer: dial tcp 10.0.0.3:2382: i/o timeout; start its agent, or check the network to its agent port (I4)

# In the middle of the way out.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 seed=running/serving:1 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 silent
member 1 voter on cp-1/seed serves atindex
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member
tombstone 1 intended
proof 1 101 102
----

next
----
refuse WriteSpec cp-3: NodeSilent: its agent does not answer; start its agent, or check the network to its agent port (I4)

# cp-2's member died meanwhile: its directory is whole, it starts.
also
cp-2 answers member=whole/down:101 proxy=routed
member 101 voter on cp-2/member notserving behind=20
----

next
----
StartMember cp-2/member 101: its directory is whole, its process is down

# Everything was off. All whole directories start, one by one, list or no list.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=whole/down:100
cp-2 answers member=whole/down:101
cp-3 silent
list unknown
----

next
----
StartMember cp-1/member 100: its directory is whole, its process is down

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/up:100
cp-2 answers member=whole/down:101
cp-3 silent
list unknown

next
----
StartMember cp-2/member 101: its directory is whole, its process is down

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/up:100
cp-2 answers member=running/up:101
cp-3 silent
list unknown

next
----
refuse WriteSpec cp-3: NodeSilent: its agent does not answer; start its agent, or check the network to its agent port (I4)

# cp-3 answers again; the two hold an election.
also
cp-3 answers member=whole/down:102
----

next
----
StartMember cp-3/member 102: its directory is whole, its process is down

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/up:100
cp-2 answers member=running/up:101
cp-3 answers member=running/up:102
list unknown

next
----
wait RegisterLearner: NoLeader: no member serves with a leader; an election among the members that run (I4)

# Nobody runs and nothing may start: that does not pass by itself.
state
want cp-1 cp-2
grant held
cp-1 answers seed=part/down,why=torn-database
cp-2 answers
list unknown
----

next
----
refuse RegisterLearner: NoLeader: no member runs, and no directory may start; a whole directory of a member (I4)

# The list is known and the voters are not: fewer than a majority serve.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/up:100
cp-2 answers member=running/serving:101
cp-3 answers member=running/up:102
member 100 voter on cp-1/member notserving behind=9
member 101 voter on cp-2/member serves atindex leader
member 102 voter on cp-3/member
----

next
----
wait RegisterLearner: QuorumUnknown: 1 of 3 voters serve, 1 silent; 2 of 3 voters serving (I2)
