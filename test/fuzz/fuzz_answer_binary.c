/*
 * fuzz_answer_binary.c
 *		Answers in the binary wire format out of hostile bytes.
 *
 * Beside answer_checks.h: whatever the check lets pass, protobuf-c unpacks.
 */
#include "answer_checks.h"

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_answer(VERDICT_WIRE_BINARY, data, size);
	return 0;
}
