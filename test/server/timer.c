/*
 * timer.c
 *		One thread, one list in order of time.
 *
 * The list is short (one entry a delayed request), so a sorted list does.  The
 * mutex guards the list and the flags; it is never held over a callback.
 */
#include "timer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct timer_entry
{
	int64_t due_us;
	timer_callback callback;
	void *argument;
	struct timer_entry *next;
} timer_entry;

struct timers
{
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	timer_entry *first;
	bool hurry;
	bool stop;
};

int64_t
monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void *
timer_thread(void *argument)
{
	timers *timers = argument;

	pthread_mutex_lock(&timers->mutex);
	while (!timers->stop)
	{
		timer_entry *entry = timers->first;

		if (entry == NULL)
			pthread_cond_wait(&timers->changed, &timers->mutex);
		else if (!timers->hurry && entry->due_us > monotonic_us())
		{
			struct timespec due;

			due.tv_sec = entry->due_us / 1000000;
			due.tv_nsec = entry->due_us % 1000000 * 1000;
			pthread_cond_timedwait(&timers->changed, &timers->mutex, &due);
		}
		else
		{
			timers->first = entry->next;
			pthread_mutex_unlock(&timers->mutex);
			entry->callback(entry->argument);
			free(entry);
			pthread_mutex_lock(&timers->mutex);
		}
	}
	pthread_mutex_unlock(&timers->mutex);
	return NULL;
}

timers *
timers_start(void)
{
	timers *timers = calloc(1, sizeof(*timers));
	pthread_condattr_t attributes;

	if (timers == NULL)
		return NULL;
	pthread_mutex_init(&timers->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&timers->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	if (pthread_create(&timers->thread, NULL, timer_thread, timers) != 0)
	{
		pthread_cond_destroy(&timers->changed);
		pthread_mutex_destroy(&timers->mutex);
		free(timers);
		return NULL;
	}
	return timers;
}

bool
timers_add(timers *timers, int64_t delay_ms, timer_callback callback, void *argument)
{
	timer_entry *entry = malloc(sizeof(*entry));
	timer_entry **place;

	if (entry == NULL)
		return false;
	entry->due_us = monotonic_us() + (delay_ms > 0 ? delay_ms * 1000 : 0);
	entry->callback = callback;
	entry->argument = argument;
	pthread_mutex_lock(&timers->mutex);
	for (place = &timers->first; *place != NULL && (*place)->due_us <= entry->due_us;
		 place = &(*place)->next)
		;
	entry->next = *place;
	*place = entry;
	pthread_cond_signal(&timers->changed);
	pthread_mutex_unlock(&timers->mutex);
	return true;
}

void
timers_hurry(timers *timers)
{
	pthread_mutex_lock(&timers->mutex);
	timers->hurry = true;
	pthread_cond_signal(&timers->changed);
	pthread_mutex_unlock(&timers->mutex);
}

void
timers_stop(timers *timers)
{
	timer_entry *entry;

	if (timers == NULL)
		return;
	pthread_mutex_lock(&timers->mutex);
	timers->stop = true;
	pthread_cond_signal(&timers->changed);
	pthread_mutex_unlock(&timers->mutex);
	pthread_join(timers->thread, NULL);
	while ((entry = timers->first) != NULL)
	{
		timers->first = entry->next;
		free(entry);
	}
	pthread_cond_destroy(&timers->changed);
	pthread_mutex_destroy(&timers->mutex);
	free(timers);
}
