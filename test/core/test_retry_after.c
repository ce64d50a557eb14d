/*
 * test_retry_after.c
 *		Reading a Retry-After value: seconds, the three forms of HTTP date, and
 *		what only looks like one.
 */
#include "retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, 5.6.7. */
#define EXAMPLE INT64_C(784111777)
/* Mon, 30 Nov 2026 00:00:00 GMT */
#define LATER INT64_C(1795996800)

static void
check(const char *value, int64_t wall_clock_s, int64_t expected)
{
	int64_t got = verdict_retry_after_ms(value, wall_clock_s);

	if (got != expected)
		fail_msg("\"%s\": %lld, not %lld", value, (long long) got, (long long) expected);
}

static void
test_seconds(void **state)
{
	static const struct
	{
		const char *value;
		int64_t expected;
	} cases[] = {
		{"0", 0},
		{"1", 1000},
		{"007", 7000},
		{"120", 120000},
		{"4294967296", INT64_C(4294967296000)},
		{"9223372036854775", INT64_C(9223372036854775000)},
		{"9223372036854776", INT64_MAX},
		{"9223372036854775807", INT64_MAX},
		{"18446744073709551616", INT64_MAX},
		{"99999999999999999999999999999999999999999999", INT64_MAX},
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		check(cases[i].value, LATER, cases[i].expected);
}

static void
test_dates(void **state)
{
	static const char *const forms[] = {
		"Sun, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994",
		"Sun Nov 06 08:49:37 1994",
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(forms); i++)
	{
		check(forms[i], EXAMPLE - 2, 2000);
		check(forms[i], EXAMPLE - 86400, 86400000);
		check(forms[i], EXAMPLE, 0);
		check(forms[i], EXAMPLE + 1, 0);
		check(forms[i], LATER, 0);
		check(forms[i], INT64_MAX, forms[i][6] == ',' ? -1 : 0);
	}
	check("Sun Nov 16 08:49:37 1994", EXAMPLE, INT64_C(864000000));
	/* The day of the week says nothing that the date does not. */
	check("Mon, 06 Nov 1994 08:49:37 GMT", EXAMPLE - 2, 2000);
	/* A clock that is out of its mind does not overflow. */
	check(forms[0], INT64_MIN, -1);
}

static void
test_calendar(void **state)
{
	(void) state;
	check("Thu, 01 Jan 1970 00:00:01 GMT", 0, 1000);
	check("Thu, 29 Feb 2024 00:00:00 GMT", 1709164799, 1000);
	check("Tue, 29 Feb 2000 00:00:00 GMT", 951782399, 1000);
	check("Fri, 31 Dec 1999 23:59:60 GMT", 946684799, 1000);
	check("Fri, 31 Dec 9999 23:59:59 GMT", 0, INT64_C(253402300799000));
	/* Days that are in no calendar. */
	check("Wed, 30 Feb 2028 00:00:00 GMT", LATER, -1);
	check("Thu, 29 Feb 2027 00:00:00 GMT", LATER, -1);
	check("Thu, 29 Feb 2100 00:00:00 GMT", LATER, -1);
	check("Thu, 31 Apr 2027 00:00:00 GMT", LATER, -1);
	check("Thu, 00 Apr 2027 00:00:00 GMT", LATER, -1);
	check("Thu, 32 Jan 2027 00:00:00 GMT", LATER, -1);
	check("Thu Feb 30 00:00:00 2028", LATER, -1);
	check("Thursday, 30-Feb-28 00:00:00 GMT", LATER, -1);
	check("Fri, 01 Jan 2027 24:00:00 GMT", LATER, -1);
	check("Fri, 01 Jan 2027 00:60:00 GMT", LATER, -1);
	check("Fri, 01 Jan 2027 00:00:61 GMT", LATER, -1);
}

/* Two digits of a year: at most 50 years ahead, else the last that passed. */
static void
test_two_digit_years(void **state)
{
	/* Jan 1 of 2027, 2077, 2100, 2105 */
	(void) state;
	check("Friday, 01-Jan-27 00:00:00 GMT", 1798761600 - 5, 5000);
	check("Wednesday, 01-Jan-76 00:00:00 GMT", LATER, (INT64_C(3345062400) - LATER) * 1000);
	check("Friday, 01-Jan-77 00:00:00 GMT", LATER, 0);
	check("Saturday, 01-Jan-94 00:00:00 GMT", LATER, 0);
	check("Saturday, 01-Jan-00 00:00:00 GMT", LATER, 0);
	/* From December 2099 the next year is 2100 and not 2000. */
	check("Friday, 01-Jan-00 00:00:00 GMT", INT64_C(4102444800) - 7, 7000);
}

static void
test_garbage(void **state)
{
	static const char *const values[] = {
		"",
		" ",
		"-1",
		"-0",
		"+1",
		"1.5",
		"1e3",
		"0x10",
		"1 2",
		" 1",
		"1 ",
		"1\t",
		"1s",
		"1,2",
		"soon",
		"infinity",
		"NaN",
		"GMT",
		"Sun",
		"Sun,",
		"1\xc2\xa0",
		"\xd9\xa1", /* a digit, but not of ASCII */
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 Nov 1994 08:49:37 +0000",
		"Sun, 06 Nov 1994 08:49:37 gmt",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 06 Nov 1994 08:49:37 GMTX",
		" Sun, 06 Nov 1994 08:49:37 GMT",
		"Sun,06 Nov 1994 08:49:37 GMT",
		"Sun,  06 Nov 1994 08:49:37 GMT",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun,  6 Nov 1994 08:49:37 GMT",
		"Sun, 06 nov 1994 08:49:37 GMT",
		"sun, 06 Nov 1994 08:49:37 GMT",
		"SUN, 06 NOV 1994 08:49:37 GMT",
		"Sunday, 06 Nov 1994 08:49:37 GMT",
		"Son, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Foo 1994 08:49:37 GMT",
		"Sun, 06 November 1994 08:49:37 GMT",
		"Sun, 06 11 1994 08:49:37 GMT",
		"Sun, 06 Nov 94 08:49:37 GMT",
		"Sun, 06 Nov 19945 08:49:37 GMT",
		"Sun, 06 Nov -994 08:49:37 GMT",
		"Sun, -6 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT",
		"Sun, 06 Nov 1994 08:49 GMT",
		"Sun, 06 Nov 1994 08:49:3 GMT",
		"Sun, 06 Nov 1994 08.49.37 GMT",
		"Sun, 06-Nov-94 08:49:37 GMT",
		"Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sunday, 6-Nov-94 08:49:37 GMT",
		"Sunday 06-Nov-94 08:49:37 GMT",
		"Sunday, 06-Nov-94 08:49:37",
		"Sun Nov 6 08:49:37 1994",
		"Sun Nov   6 08:49:37 1994",
		"Sun Nov  6 08:49:37 94",
		"Sun Nov  6 08:49:37 1994 GMT",
		"Sun, Nov  6 08:49:37 1994",
		"1994-11-06T08:49:37Z",
		"06 Nov 1994 08:49:37 GMT",
	};
	size_t i;

	(void) state;
	for (i = 0; i < LENGTH(values); i++)
		check(values[i], EXAMPLE - 10, -1);
	assert_int_equal(verdict_retry_after_ms(NULL, EXAMPLE), -1);
}

/* The instance's clock is UTC, wherever this program runs. */
static void
test_time_zone_does_not_matter(void **state)
{
	(void) state;
	setenv("TZ", "America/New_York", 1);
	tzset();
	check("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE - 2, 2000);
	check("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE - 2, 2000);
	check("Sun Nov  6 08:49:37 1994", EXAMPLE - 2, 2000);
	check("Wed Jul  6 08:49:37 1994", 773484577 - 2, 2000);
	unsetenv("TZ");
	tzset();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seconds),	 cmocka_unit_test(test_dates),
		cmocka_unit_test(test_calendar), cmocka_unit_test(test_two_digit_years),
		cmocka_unit_test(test_garbage),	 cmocka_unit_test(test_time_zone_does_not_matter),
	};

	return cmocka_run_group_tests_name("retry_after", tests, NULL, NULL);
}
