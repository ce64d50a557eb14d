/*
 * fuzz_retry_after.c
 *		Retry-After values out of hostile bytes.
 *
 * The first four bytes are the wall clock, the rest is the value.  What is taken
 * for a date must be one for libcurl's reader too, which accepts far more.
 */
#include "check.h"
#include "retry.h"

#include <curl/curl.h>
#include <string.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Digits and nothing else. */
static bool
is_number(const char *value)
{
	return *value != '\0' && value[strspn(value, "0123456789")] == '\0';
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t wall = 0;
	int64_t wait;
	char *value;
	int i;

	if (size < 4)
		return 0;
	for (i = 0; i < 4; i++)
		wall = wall * 256 + data[i];
	value = malloc(size - 4 + 1);
	check(value != NULL);
	memcpy(value, data + 4, size - 4);
	value[size - 4] = '\0';

	wait = verdict_retry_after_ms(value, wall);
	check(wait >= -1);
	if (is_number(value))
	{
		check(wait >= 0);
		check(wait == INT64_MAX || wait == strtoll(value, NULL, 10) * 1000);
		check(verdict_retry_after_ms(value, 0) == wait);
	}
	else if (wait > 0)
	{
		/* The same moment later on is nearer, and then over. */
		check(wait % 1000 == 0);
		check(verdict_retry_after_ms(value, wall + 1) == wait - 1000);
		check(verdict_retry_after_ms(value, wall + wait / 1000) == 0);
		/* libcurl has its own idea of years of two digits. */
		if (strchr(value, '-') == NULL)
			check(curl_getdate(value, NULL) == wall + wait / 1000);
	}
	else if (wait == 0)
		check(strlen(value) >= strlen("Sun Nov  6 08:49:37 1994"));
	free(value);
	return 0;
}
