# An install: the one seed that init made starts, and is never started anew over
# a place where there was one before. (I1, I3, I9, I10; L3)

# No agent answered with a spec: nothing is assumed.
state
want nothing
cp-1 silent connection refused
list unknown
----

next
----
refuse WriteSpec: NoSpec: no agent answered with a spec; run `bootstrap init` on the first node, or bring an agent back (I10)

# Before the first start.
state
want seed cp-1
grant free
cp-1 answers spec=no
list unknown
----

route
----
TakeGrant: before StartSeed cp-1/seed
WriteSpec: cp-1 does not store the wanted spec yet
StartSeed cp-1/seed: the seed has never started
wait Done cp-1: NotServing: the seed does not serve clients yet; its client port answers
RouteProxies: the proxy of cp-1 has other targets than the members of the list, or none admitted
Done: the seed serves and is the only member; `bootstrap pivot` makes managed members of it

next
----
TakeGrant: before StartSeed cp-1/seed

apply
----
want seed cp-1
grant held
cp-1 answers spec=no
list unknown

next
----
WriteSpec: cp-1 does not store the wanted spec yet

apply
----
want seed cp-1
grant held
cp-1 answers
list unknown

next
----
StartSeed cp-1/seed: the seed has never started

apply
----
want seed cp-1
grant held
cp-1 answers seed=running/up
list unknown

next
----
wait Done cp-1: NotServing: the seed does not serve clients yet; its client port answers

also
cp-1 answers seed=running/serving:1
member 1 voter on cp-1/seed serves atindex leader
----

next
----
wait Done cp-1: NotServing: the seed does not serve clients yet; its client port answers

# Power off, power on: a whole directory just starts. (I9)
state
want seed cp-1
grant held
cp-1 answers seed=whole/down:1
list unknown
----

next
----
StartSeed cp-1/seed 1: its directory is whole, its process is down

# L3: an old directory lies there. It is not touched.
also
cp-1 answers seed=foreign/down,why=cluster-7f-member-3-revision-48211
----

next
----
refuse StartSeed cp-1: SeedDirectory: the seed's directory is foreign: cluster-7f-member-3-revision-48211; a whole one, or none before the first start (I3)

also
cp-1 answers seed=part/down,why=torn-database
----

next
----
refuse StartSeed cp-1: SeedDirectory: the seed's directory is part: torn-database; a whole one, or none before the first start (I3)

# The directory is gone, and the agent's record says that there was one: starting
# anew would be a second cluster under this name.
also
cp-1 answers seed=absent/down,assigned=1
----

next
----
refuse StartSeed cp-1: SeedDirectory: the seed's directory is absent, its node was member 1; the disk that holds it (I9)

# The agent cannot read the directory: no default.
also
cp-1 answers seed=unknown/down,why=permission-denied
----

next
----
refuse StartMember cp-1: DirectoryUnknown: the seed slot cannot be read: permission-denied; make it readable (I10)

# The spec wants one seed and the list has more.
state
want seed cp-1
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=running/serving:2
member 1 voter on cp-1/seed serves atindex leader
member 2 learner on cp-2/member serves atindex
----

next
----
refuse RemoveMember cp-2: MemberNotNamed: learner 2 on cp-2, which the spec does not name; name the node, or remove the member by ID (I4)

# A silent node's own seed is neither dead nor empty. (I4)
state
want seed cp-1
grant held
cp-1 silent
list unknown
----

next
----
refuse WriteSpec cp-1: NodeSilent: its agent does not answer; start its agent, or check the network to its agent port (I4)
