/*
 * fuzz_answer_json.c
 *		Answers in the JSON wire format out of hostile bytes.
 *
 * Beside answer_checks.h: the JSON reader takes a text for JSON exactly when
 * jansson does, but for the limits that one of them has and the other has not.
 */
#include "answer_checks.h"

#include "json.h"

#include <jansson.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_grammar(const uint8_t *data, size_t size)
{
	verdict_json text = {(const char *) data, size, 0};
	bool skipped = verdict_json_skip(&text, VERDICT_JSON_MAX_DEPTH);
	json_error_t error;
	json_t *json;

	/* jansson takes a NUL after a number for the end; the RFC does not */
	if (size > 0 && memchr(data, '\0', size) != NULL)
	{
		check(!skipped || text.position < size);
		return;
	}
	verdict_json_peek(&text);
	skipped = skipped && text.position == size;
	json = json_loadb((const char *) data, size, JSON_DECODE_ANY, &error);
	if (json != NULL)
	{
		/* jansson nests deeper */
		if (!skipped)
		{
			int depth = 0;
			int deepest = 0;
			bool string = false;
			size_t i;

			for (i = 0; i < size; i++)
			{
				if (string && data[i] == '\\')
					i++;
				else if (data[i] == '"')
					string = !string;
				else if (!string && (data[i] == '[' || data[i] == '{'))
					deepest = ++depth > deepest ? depth : deepest;
				else if (!string && (data[i] == ']' || data[i] == '}'))
					depth--;
			}
			check(deepest > VERDICT_JSON_MAX_DEPTH);
		}
		json_decref(json);
	}
	else if (skipped)
		/* the numbers that jansson has no type for */
		check(json_error_code(&error) == json_error_numeric_overflow);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0)
		check_grammar(data + 1, size - 1);
	check_answer(VERDICT_WIRE_JSON, data, size);
	return 0;
}
