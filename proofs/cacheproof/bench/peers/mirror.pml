/*
 * The two-sided LRU mirror in Promela: the normative protocol of spec/cachespec/mirror for requests of one item.
 *
 * scope.h is written from a scope of ours: CONTENTS, SIZE, CAPACITY, SENDERS, PARTITIONS, OUTSTANDING, CHANNEL, one
 * switch for each kind of fault, and EACH_SENDER, EACH_CONTENT, EACH_SENT and EACH_FLYING, which repeat an operation.
 *
 * Each operation is one d_step, so Spin stores the states between operations only: one for each state of ours.
 * Ranks are kept as in our canonical form, with 1 added: 0 stands for "none". Contents are numbered from 1, and 0 ends
 * a list. Names are not exchanged: compare with our counts without symmetry.
 */
#include "scope.h"

#define NONE 0
#define NOTHING (CONTENTS + 1) /* instead of a content that is never read */
#define PROBE (CONTENTS + 2)   /* instead of the content of a message without items */
#define ACCEPTED 0
#define GAP 1
#define STALE 2
#define UNDECIDED 2            /* instead of a payload flag that is never read */
#define ALLOWANCE 2
#define RANKS (2 * (4 + OUTSTANDING + CHANNEL) + OUTSTANDING + 2)

typedef Logged { byte sequence; byte item; byte payload }
typedef Message { byte generation; byte sequence; byte item; byte payload }
typedef Answer { byte generation; byte expected; byte verdict }
typedef Link {
  /* P0 */
  byte sent_order[CONTENTS];
  byte joined;
  byte generation = 1;
  byte next = 1;
  byte unanswered;
  Logged log[OUTSTANDING];
  byte sent;
  /* P1 */
  byte held_order[CONTENTS];
  byte granted;
  byte held_generation;
  byte expected;
  /* the channel */
  byte messages;
  Message message[CHANNEL];
  byte answers;
  Answer answer[CHANNEL];
  /* history */
  byte allowance = 1;
  byte marked
}

Link link[SENDERS];
byte overspent;

/* Scratch of one step; it is no part of the state. */
hidden byte i, j, v, number, before, total, need, old_sent, old_unanswered, old_generation, item, backlog;
hidden byte generation, sequence, payload, expected, verdict, applied;
hidden byte seen[RANKS], rank[RANKS];

#define FLYING_OF(s) link[s].messages + link[s].answers
#define UNANSWERED_OF(s) link[s].unanswered
#define GRANTED_OF(s) link[s].granted
#define ROOM ((OVER_SENDERS(FLYING_OF)) < CHANNEL)
#define MORE ((OVER_SENDERS(UNANSWERED_OF)) < OUTSTANDING)
#define PARTITION_LEFT ((OVER_SENDERS(GRANTED_OF)) < PARTITIONS)

/* The walk of both sides -------------------------------------------------------------------------------------- */

#define put_last(order, key)                                 \
  i = 0;                                                     \
  do                                                         \
  :: order[i] != 0 -> i++                                    \
  :: else -> order[i] = key; break                           \
  od

/* what is at position i */
#define take_out(order)                                      \
  do                                                         \
  :: i + 1 < CONTENTS -> order[i] = order[i + 1]; i++        \
  :: else -> order[CONTENTS - 1] = 0; break                  \
  od

#define bytes_in(order)                                                   \
  total = 0;                                                              \
  i = 0;                                                                  \
  do                                                                      \
  :: i < CONTENTS && order[i] != 0 -> total = total + SIZE(order[i]); i++ \
  :: else -> break                                                        \
  od

#define make_room(order, key)                                                               \
  bytes_in(order);                                                                          \
  do                                                                                        \
  :: total + SIZE(key) > CAPACITY -> total = total - SIZE(order[0]); i = 0; take_out(order) \
  :: else -> break                                                                          \
  od

/* sets `need`: 1 if the item was not there */
#define walk(order, key)                                                     \
  i = 0;                                                                     \
  do                                                                         \
  :: i < CONTENTS && order[i] != key -> i++                                  \
  :: else -> break                                                           \
  od;                                                                        \
  if                                                                         \
  :: i < CONTENTS -> need = 0; take_out(order); put_last(order, key)         \
  :: else ->                                                                 \
     need = 1;                                                               \
     if                                                                      \
     :: SIZE(key) <= CAPACITY -> make_room(order, key); put_last(order, key) \
     :: else                                                                 \
     fi                                                                      \
  fi

#define clear_order(order)                                   \
  i = 0;                                                     \
  do                                                         \
  :: i < CONTENTS -> order[i] = 0; i++                       \
  :: else -> break                                           \
  od

/* Lists ------------------------------------------------------------------------------------------------------- */

#define set_message(s, at, g, q, k, p)                       \
  link[s].message[at].generation = g;                        \
  link[s].message[at].sequence = q;                          \
  link[s].message[at].item = k;                              \
  link[s].message[at].payload = p

#define set_answer(s, at, g, e, w)                           \
  link[s].answer[at].generation = g;                         \
  link[s].answer[at].expected = e;                           \
  link[s].answer[at].verdict = w

#define copy_message(s, to, from)                                                                                  \
  set_message(s, to, link[s].message[from].generation, link[s].message[from].sequence, link[s].message[from].item, \
              link[s].message[from].payload)

#define copy_answer(s, to, from)                             \
  set_answer(s, to, link[s].answer[from].generation, link[s].answer[from].expected, link[s].answer[from].verdict)

#define lose_message(s, at)                                     \
  i = at;                                                       \
  do                                                            \
  :: i + 1 < link[s].messages -> copy_message(s, i, i + 1); i++ \
  :: else -> break                                              \
  od;                                                           \
  link[s].messages--;                                           \
  set_message(s, link[s].messages, 0, 0, 0, 0)

#define lose_answer(s, at)                                    \
  i = at;                                                     \
  do                                                          \
  :: i + 1 < link[s].answers -> copy_answer(s, i, i + 1); i++ \
  :: else -> break                                            \
  od;                                                         \
  link[s].answers--;                                          \
  set_answer(s, link[s].answers, 0, 0, 0)

#define read_message(s, at)                                  \
  generation = link[s].message[at].generation;               \
  sequence = link[s].message[at].sequence;                   \
  item = link[s].message[at].item;                           \
  payload = link[s].message[at].payload

#define read_answer(s, at)                                   \
  generation = link[s].answer[at].generation;                \
  expected = link[s].answer[at].expected;                    \
  verdict = link[s].answer[at].verdict

#define post_answer(s, g, e, w)                              \
  set_answer(s, link[s].answers, g, e, w);                   \
  link[s].answers++

/* The canonical form ------------------------------------------------------------------------------------------ */

#define nothing_seen()                                       \
  v = 0;                                                     \
  do                                                         \
  :: v < RANKS -> seen[v] = 0; v++                           \
  :: else -> break                                           \
  od

/* neighbours stay neighbours, larger gaps become 2 */
#define number_seen()                                                              \
  rank[0] = 0;                                                                     \
  number = 0;                                                                      \
  before = 0;                                                                      \
  v = 1;                                                                           \
  do                                                                               \
  :: v < RANKS ->                                                                  \
     if                                                                            \
     :: seen[v] ->                                                                 \
        number = (number == 0 -> 1 : (v - before > 1 -> number + 2 : number + 1)); \
        rank[v] = number;                                                          \
        before = v                                                                 \
     :: else                                                                       \
     fi;                                                                           \
     v++                                                                           \
  :: else -> break                                                                 \
  od

#define compress_generations(s)                                                                          \
  nothing_seen();                                                                                        \
  seen[link[s].generation] = 1;                                                                          \
  seen[link[s].held_generation] = 1;                                                                     \
  i = 0;                                                                                                 \
  do                                                                                                     \
  :: i < CHANNEL -> seen[link[s].message[i].generation] = 1; seen[link[s].answer[i].generation] = 1; i++ \
  :: else -> break                                                                                       \
  od;                                                                                                    \
  number_seen();                                                                                         \
  link[s].generation = rank[link[s].generation];                                                         \
  link[s].held_generation = rank[link[s].held_generation];                                               \
  i = 0;                                                                                                 \
  do                                                                                                     \
  :: i < CHANNEL ->                                                                                      \
     link[s].message[i].generation = rank[link[s].message[i].generation];                                \
     link[s].answer[i].generation = rank[link[s].answer[i].generation];                                  \
     i++                                                                                                 \
  :: else -> break                                                                                       \
  od

#define compress_sequences(s)                                                                        \
  nothing_seen();                                                                                    \
  seen[link[s].next] = 1;                                                                            \
  seen[link[s].expected] = 1;                                                                        \
  seen[link[s].marked] = 1;                                                                          \
  i = 0;                                                                                             \
  do                                                                                                 \
  :: i < OUTSTANDING -> seen[link[s].log[i].sequence] = 1; i++                                       \
  :: else -> break                                                                                   \
  od;                                                                                                \
  i = 0;                                                                                             \
  do                                                                                                 \
  :: i < CHANNEL -> seen[link[s].message[i].sequence] = 1; seen[link[s].answer[i].expected] = 1; i++ \
  :: else -> break                                                                                   \
  od;                                                                                                \
  number_seen();                                                                                     \
  link[s].next = rank[link[s].next];                                                                 \
  link[s].expected = rank[link[s].expected];                                                         \
  link[s].marked = rank[link[s].marked];                                                             \
  i = 0;                                                                                             \
  do                                                                                                 \
  :: i < OUTSTANDING -> link[s].log[i].sequence = rank[link[s].log[i].sequence]; i++                 \
  :: else -> break                                                                                   \
  od;                                                                                                \
  i = 0;                                                                                             \
  do                                                                                                 \
  :: i < CHANNEL ->                                                                                  \
     link[s].message[i].sequence = rank[link[s].message[i].sequence];                                \
     link[s].answer[i].expected = rank[link[s].answer[i].expected];                                  \
     i++                                                                                             \
  :: else -> break                                                                                   \
  od

#define forget_unread(s)                                                                  \
  if                                                                                      \
  :: link[s].joined == 0 ->                                                               \
     clear_order(link[s].sent_order);                                                     \
     i = 0;                                                                               \
     do                                                                                   \
     :: i < link[s].unanswered -> link[s].log[i].payload = UNDECIDED; i++                 \
     :: else -> break                                                                     \
     od;                                                                                  \
     link[s].sent = 0                                                                     \
  :: else                                                                                 \
  fi;                                                                                     \
  i = 0;                                                                                  \
  do                                                                                      \
  :: i < link[s].messages ->                                                              \
     if                                                                                   \
     :: link[s].granted == 1 && link[s].message[i].generation >= link[s].held_generation  \
     :: else ->                                                                           \
        link[s].message[i].sequence = NONE;                                               \
        if                                                                                \
        :: link[s].message[i].item != PROBE ->                                            \
           link[s].message[i].item = NOTHING; link[s].message[i].payload = UNDECIDED      \
        :: else                                                                           \
        fi                                                                                \
     fi;                                                                                  \
     i++                                                                                  \
  :: else -> break                                                                        \
  od;                                                                                     \
  i = 0;                                                                                  \
  do                                                                                      \
  :: i < link[s].answers ->                                                               \
     if                                                                                   \
     :: link[s].answer[i].verdict != ACCEPTED && link[s].joined == 1 &&                   \
        link[s].answer[i].generation == link[s].generation                                \
     :: else ->                                                                           \
        link[s].answer[i].generation = NONE;                                              \
        link[s].answer[i].verdict = ACCEPTED;                                             \
        if                                                                                \
        :: link[s].unanswered > 0 && link[s].answer[i].expected > link[s].log[0].sequence \
        :: else -> link[s].answer[i].expected = NONE                                      \
        fi                                                                                \
     fi;                                                                                  \
     i++                                                                                  \
  :: else -> break                                                                        \
  od

#ifdef INVARIANT
/* MIR-1: once P1 has applied every message of the epoch, both sides have equal orders. */
#define check_invariant(s) \
  if \
  :: link[s].joined == 1 && link[s].granted == 1 && link[s].expected == link[s].next -> \
     i = 0; \
     do \
     :: i < CONTENTS -> assert(link[s].sent_order[i] == link[s].held_order[i]); i++ \
     :: else -> break \
     od \
  :: else \
  fi
/* MIR-2: an item is in the message or in the cache at its turn. */
#define missed assert(false)
#else
#define check_invariant(s) skip
#define missed skip
#endif

#define settle(s)                                            \
  forget_unread(s);                                          \
  compress_generations(s);                                   \
  compress_sequences(s);                                     \
  check_invariant(s)

/* P0 ---------------------------------------------------------------------------------------------------------- */

#define commit(s, key)                                       \
  walk(link[s].sent_order, key);                             \
  link[s].log[link[s].unanswered].sequence = link[s].next;   \
  link[s].log[link[s].unanswered].item = key;                \
  link[s].log[link[s].unanswered].payload = need;            \
  link[s].unanswered++;                                      \
  link[s].next++

#define transmit(s)                                                                        \
  set_message(s, link[s].messages, link[s].generation, link[s].log[link[s].sent].sequence, \
              link[s].log[link[s].sent].item, link[s].log[link[s].sent].payload);          \
  link[s].messages++;                                                                      \
  link[s].sent++

#define submit(s, key)                                       \
  backlog = (link[s].sent < link[s].unanswered -> 1 : 0);    \
  commit(s, key);                                            \
  if                                                         \
  :: backlog == 0 -> transmit(s)                             \
  :: else                                                    \
  fi

/* history: a fault on the request path */
#define touched(s)                                                                          \
  link[s].allowance = (link[s].allowance < ALLOWANCE -> link[s].allowance + 1 : ALLOWANCE); \
  link[s].marked = link[s].next

/* history: a generation begins, or a message will go out again */
#define spend(s)                                             \
  if                                                         \
  :: link[s].allowance == 0 -> overspent = 1                 \
  :: else -> link[s].allowance--                             \
  fi

#define confirm(s)                                                   \
  do                                                                 \
  :: link[s].unanswered > 0 && link[s].log[0].sequence < expected -> \
     i = 0;                                                          \
     do                                                              \
     :: i + 1 < link[s].unanswered ->                                \
        link[s].log[i].sequence = link[s].log[i + 1].sequence;       \
        link[s].log[i].item = link[s].log[i + 1].item;               \
        link[s].log[i].payload = link[s].log[i + 1].payload;         \
        i++                                                          \
     :: else -> break                                                \
     od;                                                             \
     link[s].unanswered--;                                           \
     link[s].log[link[s].unanswered].sequence = 0;                   \
     link[s].log[link[s].unanswered].item = 0;                       \
     link[s].log[link[s].unanswered].payload = 0;                    \
     link[s].sent = (link[s].sent > 0 -> link[s].sent - 1 : 0)       \
  :: else -> break                                                   \
  od

#define receive(s)                                                                         \
  old_generation = link[s].generation;                                                     \
  old_sent = link[s].sent;                                                                 \
  old_unanswered = link[s].unanswered;                                                     \
  read_answer(s, 0);                                                                       \
  lose_answer(s, 0);                                                                       \
  confirm(s);                                                                              \
  if                                                                                       \
  :: link[s].joined == 0 || generation != link[s].generation                               \
  :: else ->                                                                               \
     if                                                                                    \
     :: verdict == STALE -> link[s].joined = 0                                             \
     :: verdict == GAP && link[s].unanswered > 0 && expected == link[s].log[0].sequence -> \
        link[s].generation++; link[s].sent = 0                                             \
     :: else                                                                               \
     fi                                                                                    \
  fi;                                                                                      \
  if                                                                                       \
  :: expected > link[s].marked -> link[s].allowance = 0; link[s].marked = NONE             \
  :: else                                                                                  \
  fi;                                                                                      \
  if                                                                                       \
  :: old_generation != link[s].generation ||                                               \
     link[s].sent + (old_unanswered - link[s].unanswered) < old_sent -> spend(s)           \
  :: else                                                                                  \
  fi

#define expire(s)                                                               \
  set_message(s, link[s].messages, link[s].generation, link[s].next, PROBE, 0); \
  link[s].messages++

#define join(s)                                                                \
  if                                                                           \
  :: link[s].granted == 0 && !PARTITION_LEFT /* refused */                     \
  :: else ->                                                                   \
     clear_order(link[s].sent_order);                                          \
     clear_order(link[s].held_order);                                          \
     link[s].generation++;                                                     \
     link[s].joined = 1;                                                       \
     link[s].sent = 0;                                                         \
     link[s].granted = 1;                                                      \
     link[s].held_generation = link[s].generation;                             \
     link[s].expected = link[s].next;                                          \
     old_unanswered = link[s].unanswered;                                      \
     link[s].unanswered = 0;                                                   \
     j = 0;                                                                    \
     do                                                                        \
     :: j < old_unanswered -> item = link[s].log[j].item; commit(s, item); j++ \
     :: else -> break                                                          \
     od;                                                                       \
     spend(s)                                                                  \
  fi

/* P1 ---------------------------------------------------------------------------------------------------------- */

#define deliver(s)                                                                                                \
  read_message(s, 0);                                                                                             \
  applied = 1;                                                                                                    \
  if                                                                                                              \
  :: link[s].granted == 0 || generation < link[s].held_generation ->                                              \
     lose_message(s, 0);                                                                                          \
     post_answer(s, generation, NONE, STALE)                                                                      \
  :: else ->                                                                                                      \
     if                                                                                                           \
     :: sequence > link[s].expected ->                                                                            \
        link[s].held_generation = generation;                                                                     \
        lose_message(s, 0);                                                                                       \
        post_answer(s, generation, link[s].expected, GAP)                                                         \
     :: sequence < link[s].expected || (sequence == link[s].expected && item == PROBE) ->                         \
        link[s].held_generation = generation;                                                                     \
        lose_message(s, 0);                                                                                       \
        post_answer(s, NONE, link[s].expected, ACCEPTED)                                                          \
     :: else ->                                                                                                   \
        i = 0;                                                                                                    \
        do                                                                                                        \
        :: i < CONTENTS && link[s].held_order[i] != item -> i++                                                   \
        :: else -> break                                                                                          \
        od;                                                                                                       \
        if                                                                                                        \
        :: i == CONTENTS && payload == 0 -> /* MIR-2: neither in the message nor in the cache; nothing changes */ \
           missed \
        :: else ->                                                                                                \
           walk(link[s].held_order, item);                                                                        \
           link[s].held_generation = generation;                                                                  \
           link[s].expected++;                                                                                    \
           lose_message(s, 0);                                                                                    \
           post_answer(s, NONE, link[s].expected, ACCEPTED)                                                       \
        fi                                                                                                        \
     fi                                                                                                           \
  fi

#define revoke(s)                                            \
  clear_order(link[s].held_order);                           \
  link[s].granted = 0;                                       \
  link[s].held_generation = NONE;                            \
  link[s].expected = NONE;                                   \
  touched(s)

#define lose_everything(s)                                   \
  do                                                         \
  :: link[s].messages > 0 -> lose_message(s, 0)              \
  :: else -> break                                           \
  od;                                                        \
  do                                                         \
  :: link[s].answers > 0 -> lose_answer(s, 0)                \
  :: else -> break                                           \
  od

/* The channel ------------------------------------------------------------------------------------------------- */

#define swap_messages(s, at)                                 \
  read_message(s, at);                                       \
  copy_message(s, at, at + 1);                               \
  set_message(s, at + 1, generation, sequence, item, payload)

#define swap_answers(s, at)                                  \
  read_answer(s, at);                                        \
  copy_answer(s, at, at + 1);                                \
  set_answer(s, at + 1, generation, expected, verdict)

#define double_message(s, at)                                \
  i = link[s].messages;                                      \
  do                                                         \
  :: i > at -> copy_message(s, i, i - 1); i--                \
  :: else -> break                                           \
  od;                                                        \
  link[s].messages++

#define double_answer(s, at)                                 \
  i = link[s].answers;                                       \
  do                                                         \
  :: i > at -> copy_answer(s, i, i - 1); i--                 \
  :: else -> break                                           \
  od;                                                        \
  link[s].answers++

/* What can happen: each is one transition of ours ------------------------------------------------------------- */

#if IMPATIENT
#define NO_PROBE(s, at) && link[s].message[at].item != PROBE
#define MAY_EXPIRE(s) (1 EACH_FLYING(NO_PROBE, s))
#else
#define MAY_EXPIRE(s) (link[s].messages == 0 && link[s].answers == 0)
#endif

#define Submit(s, key) :: d_step { ROOM && link[s].joined == 1 && MORE -> submit(s, key); settle(s) }
#define Submits(s) EACH_CONTENT(Submit, s)
#define Deliver(s) :: d_step { link[s].messages > 0 -> deliver(s); settle(s) }
#define Receive(s) :: d_step { link[s].answers > 0 -> receive(s); settle(s) }
#define Join(s) :: d_step { link[s].joined == 0 -> join(s); settle(s) }
#define Transmit(s) :: d_step { link[s].joined == 1 && link[s].sent < link[s].unanswered && ROOM -> \
                       transmit(s); settle(s) }
#define Expire(s) :: d_step { link[s].joined == 1 && link[s].sent >= link[s].unanswered && link[s].unanswered > 0 && \
                     ROOM && MAY_EXPIRE(s) -> expire(s); settle(s) }
#define SubmitRejected(s, key) :: d_step { true -> skip }
#define SubmitsRejected(s) EACH_CONTENT(SubmitRejected, s)
#define Abort(s, at) :: d_step { at < link[s].unanswered -> skip }
#define Aborts(s) EACH_SENT(Abort, s)
#define Reorder(s, at) :: d_step { at + 1 < link[s].messages -> swap_messages(s, at); touched(s); settle(s) }
#define Reorders(s) EACH_NEIGHBOUR(Reorder, s)
#define ReorderAnswer(s, at) :: d_step { at + 1 < link[s].answers -> swap_answers(s, at); settle(s) }
#define ReorderAnswers(s) EACH_NEIGHBOUR(ReorderAnswer, s)
#define Drop(s, at) :: d_step { at < link[s].messages -> lose_message(s, at); touched(s); settle(s) }
#define Drops(s) EACH_FLYING(Drop, s)
#define DropAnswer(s, at) :: d_step { at < link[s].answers -> lose_answer(s, at); settle(s) }
#define DropAnswers(s) EACH_FLYING(DropAnswer, s)
#define Duplicate(s, at) :: d_step { at < link[s].messages && ROOM -> double_message(s, at); settle(s) }
#define Duplicates(s) EACH_FLYING(Duplicate, s)
#define DuplicateAnswer(s, at) :: d_step { at < link[s].answers && ROOM -> double_answer(s, at); settle(s) }
#define DuplicateAnswers(s) EACH_FLYING(DuplicateAnswer, s)
#define ResetSender(s) :: d_step { true -> clear_order(link[s].sent_order); link[s].joined = 0; touched(s); settle(s) }
#define Revoke(s) revoke(s); settle(s);
#define Restart(s) revoke(s); lose_everything(s); settle(s);

active proctype mirror() {
  do
  EACH_SENDER(Submits)
  EACH_SENDER(Deliver)
  EACH_SENDER(Receive)
  EACH_SENDER(Join)
  EACH_SENDER(Transmit)
  EACH_SENDER(Expire)
#if REJECT
  EACH_SENDER(SubmitsRejected)
#endif
#if ABORT
  EACH_SENDER(Aborts)
#endif
#if REORDER
  EACH_SENDER(Reorders)
  EACH_SENDER(ReorderAnswers)
#endif
#if DROP
  EACH_SENDER(Drops)
  EACH_SENDER(DropAnswers)
#endif
#if DUPLICATE
  EACH_SENDER(Duplicates)
  EACH_SENDER(DuplicateAnswers)
#endif
#if RESET
  EACH_SENDER(ResetSender)
  :: d_step { true -> EACH_SENDER(Revoke) skip }
#endif
#if RESTART
  :: d_step { true -> EACH_SENDER(Restart) skip }
#endif
  od
}
