------------------------------- MODULE mirror -------------------------------
(* The two-sided LRU mirror in TLA+: the normative protocol of spec/cachespec/mirror for requests of one item.   *)
(* The constants are written from a scope of ours. Each disjunct of Next with its names is one transition of     *)
(* ours. Ranks are kept as in our canonical form; names are not exchanged: compare with our counts without       *)
(* symmetry. Contents are numbered from 1.                                                                       *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Sizes, Capacity, Senders, Partitions, Outstanding, Channel,
          Reorder, Drop, Reject, Abort, Duplicate, Reset, Restart, Impatient

VARIABLES links, overspent

vars == <<links, overspent>>

None == -1
Nothing == -1    \* instead of a content that is never read
Probe == 0       \* instead of the content of a message without items
Undecided == -1  \* instead of a payload flag that is never read
Allowance == 2

Contents == 1..Len(Sizes)
Names == 1..Senders

Least(a, b) == IF a < b THEN a ELSE b
Most(a, b) == IF a < b THEN b ELSE a

-----------------------------------------------------------------------------
(* The walk of both sides *)

RECURSIVE Total(_)
Total(order) == IF order = <<>> THEN 0 ELSE Sizes[Head(order)] + Total(Tail(order))

Has(order, key) == \E at \in 1..Len(order) : order[at] = key

RECURSIVE MakeRoom(_, _)
MakeRoom(order, key) ==
  IF Total(order) + Sizes[key] > Capacity THEN MakeRoom(Tail(order), key) ELSE order

WalkOrder(order, key) ==
  IF Has(order, key) THEN Append(SelectSeq(order, LAMBDA other : other # key), key)
  ELSE IF Sizes[key] > Capacity THEN order
  ELSE Append(MakeRoom(order, key), key)

Needed(order, key) == IF Has(order, key) THEN 0 ELSE 1

-----------------------------------------------------------------------------
(* Lists *)

Without(list, at) == SubSeq(list, 1, at - 1) \o SubSeq(list, at + 1, Len(list))
Swapped(list, at) == [list EXCEPT ![at] = list[at + 1], ![at + 1] = list[at]]
Doubled(list, at) == SubSeq(list, 1, at) \o SubSeq(list, at, Len(list))

-----------------------------------------------------------------------------
(* The canonical form *)

NormalMessage(link, message) ==
  IF link.granted = 1 /\ message.generation >= link.held_generation THEN message
  ELSE [message EXCEPT !.sequence = None,
                       !.item = IF @ = Probe THEN Probe ELSE Nothing,
                       !.payload = IF message.item = Probe THEN 0 ELSE Undecided]

NormalAnswer(link, answer) ==
  IF answer.verdict # "accepted" /\ link.joined = 1 /\ answer.generation = link.generation THEN answer
  ELSE [generation |-> None,
        expected |-> IF link.log # <<>> /\ answer.expected > link.log[1].sequence THEN answer.expected ELSE None,
        verdict |-> "accepted"]

NormalSender(link) ==
  IF link.joined = 1 THEN link
  ELSE [link EXCEPT !.sent_order = <<>>, !.sent = 0,
                    !.log = [at \in 1..Len(@) |-> [@[at] EXCEPT !.payload = Undecided]]]

Normal(link) ==
  LET sender == NormalSender(link)
  IN [sender EXCEPT !.messages = [at \in 1..Len(@) |-> NormalMessage(link, @[at])],
                    !.answers = [at \in 1..Len(@) |-> NormalAnswer(link, @[at])]]

(* Neighbours stay neighbours, larger gaps become 2. *)
Rank(ranks, rank) ==
  IF rank < 0 THEN rank
  ELSE LET upto == {other \in ranks : other >= 0 /\ other <= rank}
           gaps == {other \in upto : (other - 1) \notin ranks /\ \E less \in upto : less < other}
       IN Cardinality(upto) - 1 + Cardinality(gaps)

Compressed(link) ==
  LET generations == {link.generation, link.held_generation}
                       \cup {link.messages[at].generation : at \in 1..Len(link.messages)}
                       \cup {link.answers[at].generation : at \in 1..Len(link.answers)}
      sequences == {link.next, link.expected, link.marked}
                     \cup {link.log[at].sequence : at \in 1..Len(link.log)}
                     \cup {link.messages[at].sequence : at \in 1..Len(link.messages)}
                     \cup {link.answers[at].expected : at \in 1..Len(link.answers)}
      Generation(rank) == Rank(generations \ {None}, rank)
      Sequence(rank) == Rank(sequences \ {None}, rank)
  IN [link EXCEPT !.generation = Generation(@), !.held_generation = Generation(@),
                  !.next = Sequence(@), !.expected = Sequence(@), !.marked = Sequence(@),
                  !.log = [at \in 1..Len(@) |-> [@[at] EXCEPT !.sequence = Sequence(@)]],
                  !.messages = [at \in 1..Len(@) |->
                     [@[at] EXCEPT !.generation = Generation(@), !.sequence = Sequence(@)]],
                  !.answers = [at \in 1..Len(@) |->
                     [@[at] EXCEPT !.generation = Generation(@), !.expected = Sequence(@)]]]

Canonical(link) == Compressed(Normal(link))

-----------------------------------------------------------------------------
(* The state, and its history *)

FreshLink ==
  [sent_order |-> <<>>, joined |-> 0, generation |-> 0, next |-> 0, log |-> <<>>, sent |-> 0,
   held_order |-> <<>>, granted |-> 0, held_generation |-> None, expected |-> None,
   messages |-> <<>>, answers |-> <<>>, allowance |-> 1, marked |-> None]

Init == links = [name \in Names |-> FreshLink] /\ overspent = 0

Becomes(name, link) == links' = [links EXCEPT ![name] = Canonical(link)]

(* A fault on the request path. *)
Touched(link) == [link EXCEPT !.allowance = Least(@ + 1, Allowance), !.marked = link.next]

(* A generation begins, or a message will go out again. *)
Begun(name, before, after) ==
  IF before.generation = after.generation
       /\ ~(after.sent < before.sent - (Len(before.log) - Len(after.log)))
  THEN Becomes(name, after) /\ UNCHANGED overspent
  ELSE /\ overspent' = IF after.allowance = 0 THEN 1 ELSE overspent
       /\ Becomes(name, [after EXCEPT !.allowance = Most(@ - 1, 0)])

RECURSIVE Sum(_, _)
Sum(Of(_), names) ==
  IF names = {} THEN 0
  ELSE LET name == CHOOSE one \in names : TRUE IN Of(links[name]) + Sum(Of, names \ {name})

Flying(link) == Len(link.messages) + Len(link.answers)
Unanswered(link) == Len(link.log)
Granted(link) == link.granted
Room == Sum(Flying, Names) < Channel
More == Sum(Unanswered, Names) < Outstanding

-----------------------------------------------------------------------------
(* P0 *)

Committed(link, key) ==
  [link EXCEPT !.sent_order = WalkOrder(@, key), !.next = @ + 1,
               !.log = Append(@, [sequence |-> link.next, item |-> key,
                                  payload |-> Needed(link.sent_order, key)])]

Transmitted(link) ==
  LET entry == link.log[link.sent + 1]
  IN [link EXCEPT !.sent = @ + 1,
                  !.messages = Append(@, [generation |-> link.generation, sequence |-> entry.sequence,
                                          item |-> entry.item, payload |-> entry.payload])]

Submit(name, key) ==
  LET link == links[name]
      after == Committed(link, key)
  IN /\ Room /\ link.joined = 1 /\ More
     /\ Becomes(name, IF link.sent < Len(link.log) THEN after ELSE Transmitted(after))
     /\ UNCHANGED overspent

Transmit(name) ==
  LET link == links[name]
  IN /\ link.joined = 1 /\ link.sent < Len(link.log) /\ Room
     /\ Becomes(name, Transmitted(link))
     /\ UNCHANGED overspent

MayExpire(link) ==
  IF Impatient = 1 THEN \A at \in 1..Len(link.messages) : link.messages[at].item # Probe
  ELSE link.messages = <<>> /\ link.answers = <<>>

Expire(name) ==
  LET link == links[name]
      question == [generation |-> link.generation, sequence |-> link.next, item |-> Probe, payload |-> 0]
  IN /\ link.joined = 1 /\ link.sent >= Len(link.log) /\ link.log # <<>> /\ Room /\ MayExpire(link)
     /\ Becomes(name, [link EXCEPT !.messages = Append(@, question)])
     /\ UNCHANGED overspent

RECURSIVE Confirmed(_, _)
Confirmed(link, expected) ==
  IF link.log # <<>> /\ link.log[1].sequence < expected
  THEN Confirmed([link EXCEPT !.log = Tail(@), !.sent = Most(@ - 1, 0)], expected)
  ELSE link

Answered(link, answer) ==
  LET confirmed == Confirmed(link, answer.expected)
  IN IF link.joined = 0 \/ answer.generation # link.generation THEN confirmed
     ELSE IF answer.verdict = "stale" THEN [confirmed EXCEPT !.joined = 0]
     ELSE IF /\ answer.verdict = "gap"
             /\ confirmed.log # <<>>
             /\ answer.expected = confirmed.log[1].sequence
     THEN [confirmed EXCEPT !.generation = @ + 1, !.sent = 0]
     ELSE confirmed

Receive(name) ==
  LET link == links[name]
      answer == Head(link.answers)
      after == [Answered(link, answer) EXCEPT !.answers = Tail(@)]
  IN /\ link.answers # <<>>
     /\ Begun(name, link,
              IF answer.expected > link.marked THEN [after EXCEPT !.allowance = 0, !.marked = None] ELSE after)

RECURSIVE CommittedAll(_, _)
CommittedAll(link, entries) ==
  IF entries = <<>> THEN link ELSE CommittedAll(Committed(link, Head(entries).item), Tail(entries))

Join(name) ==
  LET link == links[name]
      fresh == [link EXCEPT !.sent_order = <<>>, !.joined = 1, !.generation = @ + 1, !.log = <<>>, !.sent = 0,
                            !.held_order = <<>>, !.granted = 1, !.held_generation = link.generation + 1,
                            !.expected = link.next]
  IN /\ link.joined = 0
     /\ IF link.granted = 0 /\ Sum(Granted, Names) >= Partitions THEN UNCHANGED vars
        ELSE Begun(name, link, CommittedAll(fresh, link.log))

-----------------------------------------------------------------------------
(* P1 *)

Deliver(name) ==
  LET link == links[name]
      message == Head(link.messages)
      current == [link EXCEPT !.held_generation = message.generation]
      Answering(after, generation, expected, verdict) ==
        Becomes(name, [after EXCEPT !.messages = Tail(@),
                                    !.answers = Append(@, [generation |-> generation, expected |-> expected,
                                                           verdict |-> verdict])])
  IN /\ link.messages # <<>>
     /\ UNCHANGED overspent
     /\ IF link.granted = 0 \/ message.generation < link.held_generation
        THEN Answering(link, message.generation, None, "stale")
        ELSE IF message.sequence > link.expected
        THEN Answering(current, message.generation, link.expected, "gap")
        ELSE IF message.sequence < link.expected \/ message.item = Probe
        THEN Answering(current, None, link.expected, "accepted")
        ELSE IF Needed(link.held_order, message.item) > message.payload THEN UNCHANGED links
        ELSE Answering([current EXCEPT !.held_order = WalkOrder(@, message.item), !.expected = @ + 1],
                       None, link.expected + 1, "accepted")

Revoked(link) ==
  Touched([link EXCEPT !.held_order = <<>>, !.granted = 0, !.held_generation = None, !.expected = None])

-----------------------------------------------------------------------------
(* Faults *)

Changed(name, link) == Becomes(name, link) /\ UNCHANGED overspent

Faults(name) ==
  LET link == links[name]
      sent == 1..Len(link.messages)
      given == 1..Len(link.answers)
  IN \/ Reject = 1 /\ \E key \in Contents : UNCHANGED vars
     \/ Abort = 1 /\ \E at \in 1..Len(link.log) : UNCHANGED vars
     \/ Reorder = 1 /\ \E at \in 1..(Len(link.messages) - 1) :
          Changed(name, [Touched(link) EXCEPT !.messages = Swapped(@, at)])
     \/ Reorder = 1 /\ \E at \in 1..(Len(link.answers) - 1) :
          Changed(name, [link EXCEPT !.answers = Swapped(@, at)])
     \/ Drop = 1 /\ \E at \in sent : Changed(name, [Touched(link) EXCEPT !.messages = Without(@, at)])
     \/ Drop = 1 /\ \E at \in given : Changed(name, [link EXCEPT !.answers = Without(@, at)])
     \/ Duplicate = 1 /\ Room /\ \E at \in sent : Changed(name, [link EXCEPT !.messages = Doubled(@, at)])
     \/ Duplicate = 1 /\ Room /\ \E at \in given : Changed(name, [link EXCEPT !.answers = Doubled(@, at)])
     \/ Reset = 1 /\ Changed(name, Touched([link EXCEPT !.sent_order = <<>>, !.joined = 0]))

ResetReceiver ==
  Reset = 1 /\ links' = [name \in Names |-> Canonical(Revoked(links[name]))] /\ UNCHANGED overspent

RestartReceiver ==
  /\ Restart = 1
  /\ links' = [name \in Names |-> Canonical([Revoked(links[name]) EXCEPT !.messages = <<>>, !.answers = <<>>])]
  /\ UNCHANGED overspent

-----------------------------------------------------------------------------

Next ==
  \/ \E name \in Names :
       \/ \E key \in Contents : Submit(name, key)
       \/ Deliver(name)
       \/ Receive(name)
       \/ Join(name)
       \/ Transmit(name)
       \/ Expire(name)
       \/ Faults(name)
  \/ ResetReceiver
  \/ RestartReceiver

Spec == Init /\ [][Next]_vars

(* MIR-1: once P1 has applied every message of the epoch, both sides have equal orders. *)
Invariant ==
  \A name \in Names :
    LET link == links[name]
    IN (link.joined = 1 /\ link.granted = 1 /\ link.expected = link.next) => link.sent_order = link.held_order

=============================================================================
