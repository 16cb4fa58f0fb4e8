/*
 * The encoder cache manager in Promela: the normative transitions of spec/cachespec/encoder_cache, and its callers.
 *
 * scope.h is written from a scope of ours: CONTENTS, CONTENT_SIZE, CAPACITY, REQUESTS, INPUTS, CONTENT_OF, REQUEST_OF,
 * DISCIPLINED, FAILURES, and EACH_INPUT and EACH_REQUEST, which repeat an operation. The inputs of all requests are
 * numbered from 1, request after request; so are the contents. 0 ends a list.
 *
 * Each call is one d_step, so Spin stores the states between calls only: one for each state of ours. Requests are not
 * exchanged: compare with our counts without symmetry.
 */
#include "scope.h"

#define SIZE_OF(input) CONTENT_SIZE(CONTENT_OF(input))

COUNT free = CAPACITY;
COUNT freeable = CAPACITY;
bit resident[CONTENTS + 1];
byte references[CONTENTS + 1];
bit held[INPUTS + 1];
byte idle[CONTENTS];      /* unreferenced entries, the longest unreferenced first */
byte freed[CONTENTS];     /* evicted since the last report, in this order */
byte promised[INPUTS];    /* history: granted in this pass and not allocated yet */
byte attempted[INPUTS];   /* pinned in this pass for requests that are not admitted yet */

/* Scratch of one step; it is no part of the state. */
hidden byte i, j, c, old;
hidden COUNT needed, promised_total;

/* Lists ------------------------------------------------------------------------------------------------------- */

#define put_last(list, key)                                                      \
  i = 0;                                                                         \
  do                                                                             \
  :: list[i] != 0 -> i++                                                         \
  :: else -> list[i] = key; break                                                \
  od

#define take_out(list, length, key) /* nothing happens if it is not there */     \
  i = 0;                                                                         \
  do                                                                             \
  :: i < length && list[i] != key -> i++                                         \
  :: else -> break                                                               \
  od;                                                                            \
  do                                                                             \
  :: i + 1 < length -> list[i] = list[i + 1]; i++                                \
  :: i + 1 == length -> list[i] = 0; break                                       \
  :: else -> break                                                               \
  od

#define put_last_again(list, length, key)                                        \
  take_out(list, length, key);                                                   \
  put_last(list, key)

#define clear(list, length)                                                      \
  i = 0;                                                                         \
  do                                                                             \
  :: i < length -> list[i] = 0; i++                                              \
  :: else -> break                                                               \
  od

/* Slots and references ---------------------------------------------------------------------------------------- */

#define hold(input)                                                              \
  c = CONTENT_OF(input);                                                         \
  if                                                                             \
  :: references[c] == 0 ->                                                       \
     take_out(idle, CONTENTS, c);                                                \
     freeable = freeable - CONTENT_SIZE(c)                                       \
  :: else                                                                        \
  fi;                                                                            \
  references[c]++;                                                               \
  held[input] = 1

#define release(input)                                                           \
  if                                                                             \
  :: held[input] ->                                                              \
     c = CONTENT_OF(input);                                                      \
     held[input] = 0;                                                            \
     take_out(attempted, INPUTS, input);                                         \
     references[c]--;                                                            \
     if                                                                          \
     :: references[c] == 0 ->                                                    \
        put_last(idle, c);                                                       \
        freeable = freeable + CONTENT_SIZE(c)                                    \
     :: else                                                                     \
     fi                                                                          \
  :: else                                                                        \
  fi

#define evict_oldest                                                             \
  c = idle[0];                                                                   \
  free = free + CONTENT_SIZE(c);                                                 \
  resident[c] = 0;                                                               \
  take_out(idle, CONTENTS, c);                                                   \
  put_last(freed, c)

#define make_room                                                                \
  do                                                                             \
  :: needed > free -> evict_oldest                                               \
  :: else -> break                                                               \
  od

/* The pass ---------------------------------------------------------------------------------------------------- */

#define sum_promised                                                             \
  promised_total = 0;                                                            \
  i = 0;                                                                         \
  do                                                                             \
  :: i < INPUTS && promised[i] != 0 ->                                           \
     promised_total = promised_total + SIZE_OF(promised[i]); i++                 \
  :: else -> break                                                               \
  od

#define admitted(request)                                                        \
  j = FIRST_INPUT(request);                                                      \
  do                                                                             \
  :: j <= LAST_INPUT(request) -> take_out(attempted, INPUTS, j); j++             \
  :: else -> break                                                               \
  od

#define withdraw(request)                                                        \
  j = FIRST_INPUT(request);                                                      \
  do                                                                             \
  :: j <= LAST_INPUT(request) -> take_out(promised, INPUTS, j); j++              \
  :: else -> break                                                               \
  od;                                                                            \
  admitted(request)

#define end_pass                                                                 \
  clear(promised, INPUTS);                                                       \
  clear(attempted, INPUTS)

/* Calls ------------------------------------------------------------------------------------------------------- */

#if FAILURES
#define note(input) put_last_again(attempted, INPUTS, input)
#else
#define note(input) skip
#endif

#define check_and_update(input)                                                  \
  if                                                                             \
  :: resident[CONTENT_OF(input)] && !held[input] -> hold(input); note(input)     \
  :: else                                                                        \
  fi

#define can_allocate(input, pending)                                             \
  needed = SIZE_OF(input) + pending;                                             \
  if                                                                             \
  :: needed > freeable                                                           \
  :: else ->                                                                     \
     make_room;                                                                  \
     if                                                                          \
     :: pending < promised_total -> clear(promised, INPUTS)                      \
     :: else                                                                     \
     fi;                                                                         \
     put_last_again(promised, INPUTS, input)                                     \
  fi

#define allocate(input)                                                          \
  if                                                                             \
  :: !resident[CONTENT_OF(input)] && SIZE_OF(input) <= free ->                   \
     c = CONTENT_OF(input);                                                      \
     free = free - CONTENT_SIZE(c);                                              \
     freeable = freeable - CONTENT_SIZE(c);                                      \
     resident[c] = 1;                                                            \
     references[c] = 1;                                                          \
     held[input] = 1;                                                            \
     take_out(freed, CONTENTS, c);                                               \
     if                                                                          \
     :: IS_IN_PROMISED(input) -> take_out(promised, INPUTS, input)               \
     :: else -> clear(promised, INPUTS)                                          \
     fi;                                                                         \
     admitted(REQUEST_OF(input))                                                 \
  :: else                                                                        \
  fi

#define free_request(request)                                                    \
  j = FIRST_INPUT(request);                                                      \
  do                                                                             \
  :: j <= LAST_INPUT(request) -> release(j); j++                                 \
  :: else -> break                                                               \
  od;                                                                            \
  withdraw(request)

#define abandon(request)                                                         \
  j = FIRST_INPUT(request);                                                      \
  do                                                                             \
  :: j <= LAST_INPUT(request) ->                                                 \
     if                                                                          \
     :: IS_IN_ATTEMPTED(j) -> release(j)                                         \
     :: else                                                                     \
     fi;                                                                         \
     j++                                                                         \
  :: else -> break                                                               \
  od;                                                                            \
  withdraw(request)

#define report                                                                   \
  clear(freed, CONTENTS);                                                        \
  end_pass

#define reset                                                                    \
  j = 1;                                                                         \
  do                                                                             \
  :: j <= INPUTS -> release(j); j++                                              \
  :: else -> break                                                               \
  od;                                                                            \
  do                                                                             \
  :: idle[0] != 0 -> evict_oldest                                                \
  :: else -> break                                                               \
  od;                                                                            \
  clear(freed, CONTENTS);                                                        \
  end_pass

/* ENC-2: the slots of resident entries and the free ones are all there are; idle entries and free slots are freeable. */
#ifdef INVARIANT
#define check_invariant                                                          \
  needed = free;                                                                 \
  c = 1;                                                                         \
  do                                                                             \
  :: c <= CONTENTS -> needed = (resident[c] -> needed + CONTENT_SIZE(c) : needed); c++ \
  :: else -> break                                                               \
  od;                                                                            \
  assert(needed == CAPACITY);                                                    \
  needed = free;                                                                 \
  i = 0;                                                                         \
  do                                                                             \
  :: i < CONTENTS && idle[i] != 0 -> needed = needed + CONTENT_SIZE(idle[i]); i++ \
  :: else -> break                                                               \
  od;                                                                            \
  assert(needed == freeable)
#else
#define check_invariant skip
#endif

/* What can happen: each is one transition of ours ------------------------------------------------------------- */

#define IN_PROMISED(other, input) || promised[other - 1] == input
#define IN_ATTEMPTED(other, input) || attempted[other - 1] == input
#define OF_REQUEST(other, request) || (attempted[other - 1] != 0 && REQUEST_OF(attempted[other - 1]) == request) \
                                   || (promised[other - 1] != 0 && REQUEST_OF(promised[other - 1]) == request)
#define RUNNING(other, request) || (REQUEST_OF(other) == request && held[other] && !IS_IN_ATTEMPTED(other))
#define GRANTED(other, content) || (promised[other - 1] != 0 && CONTENT_OF(promised[other - 1]) == content)
#define IS_IN_PROMISED(input) (0 OVER_INPUTS(IN_PROMISED, input))
#define IS_IN_ATTEMPTED(input) (0 OVER_INPUTS(IN_ATTEMPTED, input))
#define HAS_BEGUN(request) (0 OVER_INPUTS(OF_REQUEST, request))
#define IS_RUNNING(request) (0 FOR_INPUTS(RUNNING, request))
#define IS_GRANTED(input) (0 OVER_INPUTS(GRANTED, CONTENT_OF(input)))
#define OTHERS_TURN(input) (promised[0] != 0 && REQUEST_OF(promised[0]) != REQUEST_OF(input))

#if DISCIPLINED
#define MAY_CHECK(input) (!OTHERS_TURN(input) && !IS_GRANTED(input))
#define MAY_ASK(input) (!OTHERS_TURN(input) && !IS_GRANTED(input) && !resident[CONTENT_OF(input)])
#define MAY_ALLOCATE(input) IS_IN_PROMISED(input)
#define MAY_FREE(input) (held[input] && promised[0] == 0)
#define MAY_ABANDON(request) (HAS_BEGUN(request) && !IS_RUNNING(request))
#define MAY_REPORT (promised[0] == 0)
#else
#define MAY_CHECK(input) true
#define MAY_ASK(input) true
#define MAY_ALLOCATE(input) true
#define MAY_FREE(input) true
#define MAY_ABANDON(request) HAS_BEGUN(request)
#define MAY_REPORT true
#endif

#define CheckAndUpdate(input) :: d_step { MAY_CHECK(input) -> check_and_update(input); check_invariant }
#define CanAllocate(input) :: d_step { MAY_ASK(input) -> sum_promised; can_allocate(input, promised_total); \
                              check_invariant }
#define CanAllocateForgetting(input) :: d_step { PROMISES_SIZE -> sum_promised; can_allocate(input, 0); \
                                        check_invariant }
#define Allocate(input) :: d_step { MAY_ALLOCATE(input) -> allocate(input); check_invariant }
#define FreeInput(input) :: d_step { MAY_FREE(input) -> release(input); check_invariant }
#define FreeRequest(request) :: d_step { true -> free_request(request); check_invariant }
#define CachedInputs(request) :: d_step { true -> skip }
#define Abandon(request) :: d_step { MAY_ABANDON(request) -> abandon(request); check_invariant }

/* Another value of `pending` is possible only if what is promised has a size. */
#define HAS_SIZE(other, unused) || (promised[other - 1] != 0 && SIZE_OF(promised[other - 1]) > 0)
#define PROMISES_SIZE (0 OVER_INPUTS(HAS_SIZE, 0))

active proctype encoder_cache() {
  do
  EACH_INPUT(CheckAndUpdate)
  EACH_INPUT(CanAllocate)
#if !DISCIPLINED
  EACH_INPUT(CanAllocateForgetting)
#endif
  EACH_INPUT(Allocate)
  EACH_INPUT(FreeInput)
  EACH_REQUEST(FreeRequest)
  EACH_REQUEST(CachedInputs)
#if FAILURES
  EACH_REQUEST(Abandon) /* for want of an encoder input */
  EACH_REQUEST(Abandon) /* for want of KV blocks */
#endif
  :: d_step { MAY_REPORT -> report; check_invariant }
#if RESETS
  :: d_step { true -> reset; check_invariant }
#endif
  od
}
