# Counts tests in the output of one program: "<passed> <failed>".
#
# Reads TAP (cmocka, prove -v, pg_regress from 16 on) and the lines of an older
# pg_regress.  Indented lines are parts of a test and count with it.  Status is
# the program's exit status: a program that failed without a failed test, ended
# before its plan, or ran nothing at all counts as one failure, never as none.

/^ok[ \t]/ && !/# *[Ss][Kk][Ii][Pp]/	{ passed++; ran++; next }
/^ok[ \t]/	{ ran++; next }
/^not ok[ \t]/ && /# *TODO/	{ ran++; next }
/^not ok[ \t]/	{ failed++; ran++; next }
/^1\.\.[0-9]+/	{ split($1, plan, /\.\./); planned += plan[2]; if (/# *[Ss][Kk][Ii][Pp]/) whole = 1; next }
/^(test|    ) +[^ ]+ +\.\.\. +ok /	{ passed++; ran++; next }
/^(test|    ) +[^ ]+ +\.\.\. +FAILED/	{ failed++; ran++; next }

END {
	if (failed == 0 && (status != 0 || (ran == 0 && !whole) || (planned > 0 && ran < planned)))
		failed++
	print passed + 0, failed + 0
}
