/*
 * test_options.c
 *		What a client is made of: every option is checked before anything is sent.
 */
#include "rig.h"

static rig r;

static int
begin(void **state)
{
	(void) state;
	rig_begin(&r);
	rig_client(&r);
	return 0;
}

static int
end(void **state)
{
	(void) state;
	rig_end(&r);
	return 0;
}

static void
checks_instance_urls(void **state)
{
	static const char *const good[] = {
		"http://h", "https://h/",	  "http://127.0.0.1:8080/a/b/",	  "https://[::1]:8443",
		"HTTP://H", "http://h/a@b:c", "https://h.example.com./x%20y",
	};
	static const char *const bad[] = {
		"",
		"h",
		"h:80",
		"/a",
		"//h/a",
		"ftp://h",
		"file:///etc/passwd",
		"gopher://h",
		"javascript://h",
		"http://",
		"http:///a",
		"http://u@h",
		"http://u:p@h",
		"http://:p@h",
		"http://h?q",
		"http://h/?",
		"http://h#f",
		"http://h/a#",
		"http://h /",
		"http://h\n",
		"http://h\r\nX: y",
		"http://h/\x01",
		"http://h:99999",
		"http://h:x",
		"http://h/\x7f",
		" http://h",
		"http://[::1",
		"http:h",
	};
	size_t i;

	(void) state;
	for (i = 0; i < RIG_LENGTH(good); i++)
		if (!verdict_instance_url_check(good[i], &r.status))
			fail_msg("%s: %s", good[i], r.status.message);
	for (i = 0; i < RIG_LENGTH(bad); i++)
	{
		verdict_status_init(&r.status);
		if (verdict_instance_url_check(bad[i], &r.status))
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
		assert_int_equal(r.status.cause, VERDICT_CAUSE_ARGUMENT);
		/* A password in it is not told on. */
		assert_null(strstr(r.status.message, "u:p"));
	}
}

static void
checks_api_keys(void **state)
{
	(void) state;
	assert_true(verdict_api_key_check("a", &r.status));
	assert_true(verdict_api_key_check("!~Az09", &r.status));
	assert_false(verdict_api_key_check("", &r.status));
	assert_false(verdict_api_key_check("a b", &r.status));
	assert_false(verdict_api_key_check("a\nX: y", &r.status));
	assert_false(verdict_api_key_check("a\x7f", &r.status));
	assert_false(verdict_api_key_check("k\xc3\xa9y", &r.status));
	assert_int_equal(r.status.code, VERDICT_INVALID_ARGUMENT);
	assert_null(strstr(r.status.message, "k\xc3\xa9y"));
}

static void
refuse_options(void)
{
	verdict_status status;

	assert_null(verdict_client_create(r.runtime, &r.options, &status));
	assert_int_equal(status.code, VERDICT_INVALID_ARGUMENT);
	assert_int_equal(status.cause, VERDICT_CAUSE_ARGUMENT);
	assert_true(status.message[0] != '\0');
	verdict_client_options_init(&r.options);
	r.options.instance_url = peer_url(r.peer);
}

static void
checks_options(void **state)
{
	(void) state;
	r.options.instance_url = NULL;
	refuse_options();
	r.options.instance_url = "ftp://h";
	refuse_options();
	r.options.api_key = "";
	refuse_options();
	r.options.mutation_attempt_timeout_ms = 0;
	refuse_options();
	r.options.mutation_attempt_timeout_ms = 55001;
	refuse_options();
	r.options.mutation_overall_timeout_ms = -1;
	refuse_options();
	r.options.read_timeout_ms = 55001;
	refuse_options();
	r.options.max_response_bytes = 1023;
	refuse_options();
	r.options.max_response_bytes = VERDICT_RESPONSE_BYTES_MAX + 1;
	refuse_options();
}

static void
has_the_defaults_of_the_contract(void **state)
{
	verdict_client_options options;

	(void) state;
	verdict_client_options_init(&options);
	assert_int_equal(options.wire_format, VERDICT_WIRE_BINARY);
	assert_int_equal(options.http_version, VERDICT_HTTP_1_1);
	assert_int_equal(options.retry_owner, VERDICT_RETRY_CLIENT);
	assert_true(options.retry_http_503);
	assert_int_equal(options.mutation_attempt_timeout_ms, 12000);
	assert_int_equal(options.mutation_overall_timeout_ms, 30000);
	assert_int_equal(options.read_timeout_ms, 10000);
	assert_int_equal(options.max_response_bytes, 16 * 1024 * 1024);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(checks_instance_urls),
		TEST(checks_api_keys),
		TEST(checks_options),
		TEST(has_the_defaults_of_the_contract),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
