# What lies in a member's place before it is needed: ours and of no use goes to the
# attic by a rename, what is not ours is not touched, what runs is left to run
# (I1, I3, I9, I10; L3, L6).

# A whole directory that no member of the list owns, a broken one, an older one.
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=whole/down:50 seed=running/serving:1
cp-2 answers member=part/down,why=torn-log
cp-3 answers member=older/down:52,why=epoch-1
member 1 voter on cp-1/seed serves atindex leader
----

next
----
RetireDirectory cp-1/member 50: its directory is whole and no member of the list: kept in the attic

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers member=part/down,why=torn-log
cp-3 answers member=older/down:52,why=epoch-1
member 1 voter on cp-1/seed serves atindex leader

next
----
RetireDirectory cp-2/member: its directory is part and no member of the list: torn-log

apply
----
want cp-1 cp-2 cp-3
grant held
cp-1 answers seed=running/serving:1
cp-2 answers
cp-3 answers member=older/down:52,why=epoch-1
member 1 voter on cp-1/seed serves atindex leader

next
----
RetireDirectory cp-3/member 52: its directory is older and no member of the list: epoch-1

# L3: another cluster's directory.
also
cp-3 answers member=foreign/down,why=cluster-7f
----

next
----
refuse StartMember cp-3: ForeignDirectory: cluster-7f; move it away by hand; nothing of it was touched (I3)

# L6: a process that nobody knows holds the lock of that place.
also
cp-3 answers member=running/up:77,assigned=0
----

next
----
wait RegisterLearner cp-3: UnknownProcess: a process of member 77 runs there, which the list does not name and its agent did not start; its end (I1)

# L6: two processes on one directory, retiring under a process, retiring what the list owns.
also
cp-2 answers member=running/serving:101
cp-3 answers member=whole/down:102
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member notserving
----

check
StartMember cp-2/member 101
RetireDirectory cp-2/member 101
RetireDirectory cp-3/member 102
StartMember cp-3/member 102
StartMember cp-9/member 109
----
refuse StartMember cp-2: NotInUse: a process runs there, or may (I3)
refuse RetireDirectory cp-2: NotInUse: a process runs there, or may (I3)
refuse RetireDirectory cp-3: NotInUse: member 102 of the list owns it, or may (I3)
may StartMember cp-3/member 102
refuse StartMember cp-9: NotInUse: its agent does not answer (I4)

# A voter's directory is gone, or cannot start. Both are for replacement, not for
# guessing: an identity that voted never starts on nothing (I9).
state
want cp-1 cp-2 cp-3
grant held
cp-1 answers member=running/serving:100 proxy=routed
cp-2 answers member=running/serving:101 proxy=routed
cp-3 answers proxy=routed
member 100 voter on cp-1/member serves atindex leader
member 101 voter on cp-2/member serves atindex
member 102 voter on cp-3/member notserving
----

next
----
refuse StartMember cp-3: LostDirectory: voter 102 has no directory any more; replace the member (I9)

also
cp-3 answers member=part/down:102,why=torn-log proxy=routed
----

next
----
refuse StartMember cp-3: PartDirectory: the directory of voter 102 is part: torn-log; replace the member (I3)

also
cp-3 answers member=older/down:50 proxy=routed
----

next
----
refuse StartMember cp-3: PartDirectory: the directory of voter 102 is older; replace the member (I3)

also
cp-3 answers member=unknown/unknown,why=input/output-error proxy=routed
----

next
----
refuse StartMember cp-3: DirectoryUnknown: the member slot cannot be read: input/output-error; make it readable (I10)
