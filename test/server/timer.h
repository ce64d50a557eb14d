/*
 * timer.h
 *		Calls a function after a time, in a thread of its own.
 *
 * What an ordered delay needs: the thread that serves requests must never sleep.
 * Callbacks run one after another in the timer thread, without any lock held;
 * they may add timers and must not block.
 */
#ifndef VERDICT_SERVER_TIMER_H
#define VERDICT_SERVER_TIMER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct timers timers;
typedef void (*timer_callback)(void *argument);

/* Starts the thread.  NULL when there is no memory or no thread. */
extern timers *timers_start(void);
/*
 * Has "callback" called once, "delay_ms" milliseconds from now (0 and less: at
 * once).  False when there is no memory; then it is not called.
 */
extern bool timers_add(timers *timers, int64_t delay_ms, timer_callback callback, void *argument);
/* From now on every timer is due at once, those waiting and those to come. */
extern void timers_hurry(timers *timers);
/* Ends the thread; timers still waiting are dropped.  NULL is allowed. */
extern void timers_stop(timers *timers);

/* Microseconds of the monotonic clock. */
extern int64_t monotonic_us(void);

#endif /* VERDICT_SERVER_TIMER_H */
