/*
 * check.h
 *		The assertion of fuzz targets: what does not hold is told, then aborts.
 *
 * Not assert(), which a build may leave out.
 */
#ifndef VERDICT_FUZZ_CHECK_H
#define VERDICT_FUZZ_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define check(holds) ((holds) ? (void) 0 : check_failed(__FILE__, __LINE__, #holds))

static inline void __attribute__((noreturn))
check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

#endif /* VERDICT_FUZZ_CHECK_H */
