---------------------------- MODULE encoder_cache ----------------------------
(* The encoder cache manager in TLA+: the normative transitions of spec/cachespec/encoder_cache, and its callers. *)
(* The constants are written from a scope of ours. Each disjunct of Next with its names is one transition of      *)
(* ours. Requests are not exchanged: compare with our counts without symmetry. An input is a pair of a request    *)
(* and a position; contents, requests and positions are numbered from 1.                                          *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Sizes, Capacity, Requests, Disciplined, Failures, Resets

VARIABLES free, freeable, resident, references, held, idle, freed, promised, attempted

vars == <<free, freeable, resident, references, held, idle, freed, promised, attempted>>

Contents == 1..Len(Sizes)
Names == 1..Len(Requests)
Inputs == UNION {{<<name, at>> : at \in 1..Len(Requests[name])} : name \in Names}
ContentOf(input) == Requests[input[1]][input[2]]
SizeOf(input) == Sizes[ContentOf(input)]

(* The state as a record, on which the calls are functions. *)
Cache == [free |-> free, freeable |-> freeable, resident |-> resident, references |-> references, held |-> held,
          idle |-> idle, freed |-> freed, promised |-> promised, attempted |-> attempted]

Becomes(cache) ==
  /\ free' = cache.free /\ freeable' = cache.freeable /\ resident' = cache.resident
  /\ references' = cache.references /\ held' = cache.held /\ idle' = cache.idle /\ freed' = cache.freed
  /\ promised' = cache.promised /\ attempted' = cache.attempted

Init ==
  /\ free = Capacity /\ freeable = Capacity /\ resident = {} /\ references = [content \in Contents |-> 0]
  /\ held = {} /\ idle = <<>> /\ freed = <<>> /\ promised = <<>> /\ attempted = <<>>

Has(list, one) == \E at \in 1..Len(list) : list[at] = one
Without(list, one) == SelectSeq(list, LAMBDA other : other # one)
PutLast(list, one) == Append(Without(list, one), one)

RECURSIVE Total(_)
Total(inputs) == IF inputs = <<>> THEN 0 ELSE SizeOf(Head(inputs)) + Total(Tail(inputs))

-----------------------------------------------------------------------------
(* Slots and references *)

Hold(cache, input) ==
  LET content == ContentOf(input)
      woken == IF cache.references[content] > 0 THEN cache
               ELSE [cache EXCEPT !.idle = Without(@, content), !.freeable = @ - Sizes[content]]
  IN [woken EXCEPT !.references[content] = @ + 1, !.held = @ \cup {input}]

Release(cache, input) ==
  LET content == ContentOf(input)
      let_go == [cache EXCEPT !.held = @ \ {input}, !.attempted = Without(@, input), !.references[content] = @ - 1]
  IN IF input \notin cache.held THEN cache
     ELSE IF cache.references[content] > 1 THEN let_go
     ELSE [let_go EXCEPT !.idle = PutLast(@, content), !.freeable = @ + Sizes[content]]

EvictOldest(cache) ==
  LET content == Head(cache.idle)
  IN [cache EXCEPT !.free = @ + Sizes[content], !.resident = @ \ {content}, !.idle = Tail(@),
                   !.freed = PutLast(@, content)]

RECURSIVE MakeRoom(_, _)
MakeRoom(cache, needed) == IF needed > cache.free THEN MakeRoom(EvictOldest(cache), needed) ELSE cache

-----------------------------------------------------------------------------
(* The pass *)

RECURSIVE ReleaseAll(_, _, _)
ReleaseAll(cache, name, from) ==
  IF from > Len(Requests[name]) THEN cache ELSE ReleaseAll(Release(cache, <<name, from>>), name, from + 1)

RECURSIVE ReleaseAttempted(_, _, _)
ReleaseAttempted(cache, name, from) ==
  IF from > Len(Requests[name]) THEN cache
  ELSE ReleaseAttempted(IF Has(cache.attempted, <<name, from>>) THEN Release(cache, <<name, from>>) ELSE cache,
                        name, from + 1)

NotOf(list, name) == SelectSeq(list, LAMBDA input : input[1] # name)
Admitted(cache, name) == [cache EXCEPT !.attempted = NotOf(@, name)]
Withdrawn(cache, name) == Admitted([cache EXCEPT !.promised = NotOf(@, name)], name)
PassEnded(cache) == [cache EXCEPT !.promised = <<>>, !.attempted = <<>>]

-----------------------------------------------------------------------------
(* What the callers do: without discipline every call at any time *)

OthersTurn(input) == promised # <<>> /\ Head(promised)[1] # input[1]
IsGranted(content) == \E at \in 1..Len(promised) : ContentOf(promised[at]) = content
Ordered == Disciplined = 1

CheckAndUpdate(input) ==
  /\ Ordered => ~OthersTurn(input) /\ ~IsGranted(ContentOf(input))
  /\ IF ContentOf(input) \in resident /\ input \notin held
     THEN LET after == Hold(Cache, input)
          IN Becomes(IF Failures = 1 THEN [after EXCEPT !.attempted = PutLast(@, input)] ELSE after)
     ELSE UNCHANGED vars

CanAllocate(input, pending) ==
  /\ Ordered => ~OthersTurn(input) /\ ~IsGranted(ContentOf(input)) /\ ContentOf(input) \notin resident
  /\ IF SizeOf(input) + pending > freeable THEN UNCHANGED vars
     ELSE LET roomy == MakeRoom(Cache, SizeOf(input) + pending)
              kept == IF pending >= Total(promised) THEN promised ELSE <<>>
          IN Becomes([roomy EXCEPT !.promised = PutLast(kept, input)])

Allocate(input) ==
  LET content == ContentOf(input)
      size == SizeOf(input)
      placed == [Cache EXCEPT !.free = @ - size, !.freeable = @ - size, !.resident = @ \cup {content},
                              !.references[content] = 1, !.held = @ \cup {input}, !.freed = Without(@, content),
                              !.promised = IF Has(@, input) THEN Without(@, input) ELSE <<>>]
  IN /\ Ordered => Has(promised, input)
     /\ IF content \in resident \/ size > free THEN UNCHANGED vars ELSE Becomes(Admitted(placed, input[1]))

FreeInput(input) ==
  /\ Ordered => input \in held /\ promised = <<>>
  /\ Becomes(Release(Cache, input))

FreeRequest(name) == Becomes(Withdrawn(ReleaseAll(Cache, name, 1), name))

CachedInputs(name) == UNCHANGED vars

(* A membership and no disjunction: TLC would count a transition for each disjunct that holds. *)
HasBegun(name) == name \in {attempted[at][1] : at \in 1..Len(attempted)} \cup {promised[at][1] : at \in 1..Len(promised)}

IsRunning(name) == \E input \in held : input[1] = name /\ ~Has(attempted, input)

Abandon(name, cause) ==
  /\ Failures = 1 /\ HasBegun(name) /\ (Ordered => ~IsRunning(name))
  /\ Becomes(Withdrawn(ReleaseAttempted(Cache, name, 1), name))

Report ==
  /\ Ordered => promised = <<>>
  /\ Becomes(PassEnded([Cache EXCEPT !.freed = <<>>]))

RECURSIVE ReleaseEvery(_, _)
ReleaseEvery(cache, name) ==
  IF name > Len(Requests) THEN cache ELSE ReleaseEvery(ReleaseAll(cache, name, 1), name + 1)

RECURSIVE EvictAll(_)
EvictAll(cache) == IF cache.idle = <<>> THEN cache ELSE EvictAll(EvictOldest(cache))

ResetAll == Resets = 1 /\ Becomes(PassEnded([EvictAll(ReleaseEvery(Cache, 1)) EXCEPT !.freed = <<>>]))

Next ==
  \/ \E input \in Inputs :
       \/ CheckAndUpdate(input)
       \/ \E pending \in {Total(promised)} \cup (IF Ordered THEN {} ELSE {0}) : CanAllocate(input, pending)
       \/ Allocate(input)
       \/ FreeInput(input)
  \/ \E name \in Names :
       \/ FreeRequest(name)
       \/ CachedInputs(name)
       \/ \E cause \in {"encoder", "blocks"} : Abandon(name, cause)
  \/ Report
  \/ ResetAll

Spec == Init /\ [][Next]_vars

(* ENC-2: the slots of resident entries and the free ones are all there are; idle entries are freeable. *)
RECURSIVE TotalOf(_)
TotalOf(contents) ==
  IF contents = {} THEN 0
  ELSE LET content == CHOOSE one \in contents : TRUE IN Sizes[content] + TotalOf(contents \ {content})

Invariant ==
  /\ free + TotalOf(resident) = Capacity
  /\ freeable = free + TotalOf({idle[at] : at \in 1..Len(idle)})

=============================================================================
