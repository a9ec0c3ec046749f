# A member that joins takes a copy of the database and its log (128 MiB), and
# must leave twice the database free. cp-3 would not, and nothing is begun.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
disk cp-1 5000 MiB
cp-2 answers
disk cp-2 428 MiB
cp-3 answers
disk cp-3 427 MiB
db 100 MiB
member 1 voter on cp-1/seed serves atindex leader
----

next
----
refuse RegisterLearner cp-3: EnoughDisk: 427.0 MiB free under its data directory; the database of 100.0 MiB and its log take 228.0 MiB; 428.0 MiB free: that, and twice the database after it (I2)

# Registered before the room went: it is not started.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
disk cp-2 0 MiB
db 100 MiB
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-1/member unstarted notserving behind=10
member 102 learner on cp-2/member unstarted notserving behind=10
----

check
StartMember cp-1/member 101
StartMember cp-2/member 102
----
may StartMember cp-1/member 101
refuse StartMember cp-2: EnoughDisk: 0.0 KiB free under its data directory; the database of 100.0 MiB and its log take 228.0 MiB; 428.0 MiB free: that, and twice the database after it (I2)

# What is not known refuses nothing, and a directory that is whole just starts.
state
want cp-1 cp-2
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=whole:102
disk cp-2 0 MiB
db 100 MiB
member 1 voter on cp-1/seed serves atindex leader
member 101 learner on cp-1/member unstarted notserving behind=10
member 102 learner on cp-2/member notserving behind=10
----

check
StartMember cp-1/member 101
StartMember cp-2/member 102
----
may StartMember cp-1/member 101
may StartMember cp-2/member 102
