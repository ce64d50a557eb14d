/*
 * options.c
 *		Everything is checked before anything is started.
 */
#include "options.h"

#include "cluster.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LISTEN "127.0.0.1:8180"
#define DEFAULT_REQUEST_BYTES (16 * 1024 * 1024)
#define DEFAULT_IDLE_SECONDS 60
#define FILE_MAX (64 * 1024 * 1024)

enum
{
	OPTION_LISTEN = 256,
	OPTION_DATA,
	OPTION_POLICY,
	OPTION_API_KEY,
	OPTION_API_KEY_FILE,
	OPTION_TLS_CERT,
	OPTION_TLS_KEY,
	OPTION_PATH_PREFIX,
	OPTION_ADMIN,
	OPTION_MAX_ROWS,
	OPTION_MAX_PAGE,
	OPTION_MAX_BATCH,
	OPTION_MAX_REQUEST_BYTES,
	OPTION_IDLE_TIMEOUT,
	OPTION_EXIT_WITH_PARENT,
	OPTION_REPLICAS,
	OPTION_LAG,
	OPTION_SHARDS,
	OPTION_SYNC
};

static const struct option long_options[] = {
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"data", required_argument, NULL, OPTION_DATA},
	{"policy", required_argument, NULL, OPTION_POLICY},
	{"api-key", required_argument, NULL, OPTION_API_KEY},
	{"api-key-file", required_argument, NULL, OPTION_API_KEY_FILE},
	{"tls-cert", required_argument, NULL, OPTION_TLS_CERT},
	{"tls-key", required_argument, NULL, OPTION_TLS_KEY},
	{"path-prefix", required_argument, NULL, OPTION_PATH_PREFIX},
	{"admin", required_argument, NULL, OPTION_ADMIN},
	{"max-rows", required_argument, NULL, OPTION_MAX_ROWS},
	{"max-page", required_argument, NULL, OPTION_MAX_PAGE},
	{"max-batch", required_argument, NULL, OPTION_MAX_BATCH},
	{"max-request-bytes", required_argument, NULL, OPTION_MAX_REQUEST_BYTES},
	{"idle-timeout", required_argument, NULL, OPTION_IDLE_TIMEOUT},
	{"exit-with-parent", no_argument, NULL, OPTION_EXIT_WITH_PARENT},
	{"replicas", required_argument, NULL, OPTION_REPLICAS},
	{"lag", required_argument, NULL, OPTION_LAG},
	{"shards", required_argument, NULL, OPTION_SHARDS},
	{"sync", required_argument, NULL, OPTION_SYNC},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void
fail(const char *format, ...)
{
	va_list arguments;

	fputs("verdict-dev: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("\nTry \"verdict-dev --help\".\n", stderr);
	exit(2);
}

static void
help(void)
{
	fputs("verdict-dev is a Verdict instance for development, tests and benchmarks.\n"
		  "\n"
		  "Usage: verdict-dev [OPTION]...\n"
		  "\n"
		  "It prints \"listening on URL\" when it is ready; URL is the instance_url of a\n"
		  "client. SIGTERM and SIGINT stop it after the running requests, within 5 seconds.\n"
		  "\n"
		  "Where and what:\n"
		  "  --listen HOST:PORT       address to serve at; port 0 takes a free one\n"
		  "                           (default " DEFAULT_LISTEN ")\n"
		  "  --path-prefix /PREFIX    serve below this path\n"
		  "  --data FILE              keep facts, policy and idempotency records in this\n"
		  "                           SQLite file (default: in memory, gone at the end)\n"
		  "  --policy FILE            set the policy of this file at the start\n"
		  "\n"
		  "Who may call:\n"
		  "  --api-key KEY            let callers with this key in; may be repeated; without\n"
		  "                           any key everybody is let in\n"
		  "  --api-key-file FILE      the same with a key on each line of a file, so that no\n"
		  "                           key shows in the list of processes\n"
		  "  --tls-cert FILE          serve HTTPS with this certificate chain (PEM)\n"
		  "  --tls-key FILE           and this private key (PEM)\n"
		  "\n"
		  "Caps:\n"
		  "  --max-rows N             rows of one Query (default 100000)\n"
		  "  --max-page N             facts of one ListFacts page (default 10000)\n"
		  "  --max-batch N            changes of one BatchFacts (default 10000)\n"
		  "  --max-request-bytes N    size of one request (default 16777216)\n"
		  "  --idle-timeout SECONDS   close a connection without requests after this time\n"
		  "                           (default 60)\n"
		  "\n"
		  "Several nodes, all in this process:\n"
		  "  --replicas N             a writer and N replicas, 1 to 16; HOST:PORT is then the\n"
		  "                           front, which sends each session to one of the replicas;\n"
		  "                           the nodes serve at the ports that follow (port 0: at free\n"
		  "                           ones) and print \"writer on URL\", \"replica N on URL\";\n"
		  "                           replica N keeps its store in FILE.N\n"
		  "  --lag MS                 a replica applies a change this long after the writer\n"
		  "                           (default 0)\n"
		  "  --shards K               spread facts by predicate over K shards with a position\n"
		  "                           each, 1 to 64 (default 1)\n"
		  "  --sync M                 answer a mutation when M replicas have it (default 0)\n"
		  "\n"
		  "For tests:\n"
		  "  --admin HOST:PORT        order faults and look up requests here, without any\n"
		  "                           credential; off by default; prints \"admin on URL\"\n"
		  "  --exit-with-parent       stop when the process that started this one ends\n"
		  "  --help                   show this text\n",
		  stdout);
}

char *
read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *text = NULL;
	size_t used = 0;
	size_t room = 0;
	int error = 0;

	if (file == NULL)
		return NULL;
	for (;;)
	{
		if (used + 1 >= room)
		{
			char *larger = realloc(text, room = room * 2 + 4096);

			if (larger == NULL || room > FILE_MAX)
			{
				error = larger == NULL ? ENOMEM : EFBIG;
				text = larger != NULL ? larger : text;
				break;
			}
			text = larger;
		}
		used += fread(text + used, 1, room - used - 1, file);
		if (ferror(file))
		{
			error = errno;
			break;
		}
		if (feof(file))
			break;
	}
	fclose(file);
	if (error != 0)
	{
		free(text);
		errno = error;
		return NULL;
	}
	text[used] = '\0';
	*size = used;
	return text;
}

static char *
read_or_fail(const char *path)
{
	size_t size;
	char *text = read_file(path, &size);

	if (text == NULL)
		fail("cannot read \"%s\": %s", path, strerror(errno));
	return text;
}

static void
add_key(options *options, const char *key)
{
	/* what can stand in an Authorization header */
	for (const char *byte = key; *byte != '\0'; byte++)
		if (*byte < 0x21 || *byte > 0x7e)
			fail("an API key must be visible ASCII characters");
	if (*key == '\0')
		fail("an API key must not be empty");
	options->api_keys = realloc(options->api_keys, (options->api_key_count + 1) * sizeof(char *));
	if (options->api_keys == NULL ||
		(options->api_keys[options->api_key_count++] = strdup(key)) == NULL)
		fail("out of memory");
}

static void
add_keys_of_file(options *options, const char *path)
{
	char *text = read_or_fail(path);
	size_t before = options->api_key_count;
	char *rest = text;
	char *line;

	while ((line = strsep(&rest, "\r\n")) != NULL)
		if (*line != '\0')
			add_key(options, line);
	free(text);
	if (options->api_key_count == before)
		fail("\"%s\" holds no API key", path);
}

static unsigned long
number(const char *name, const char *text, unsigned long minimum, unsigned long maximum)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < minimum ||
		value > maximum)
		fail("--%s must be a number from %lu to %lu", name, minimum, maximum);
	return value;
}

static char *
check_prefix(const char *prefix)
{
	char *copy = strdup(prefix);
	size_t size;

	if (copy == NULL)
		fail("out of memory");
	size = strlen(copy);
	while (size > 0 && copy[size - 1] == '/')
		copy[--size] = '\0';
	if (size > 0 && *copy != '/')
		fail("--path-prefix must begin with a slash");
	for (const char *byte = copy; *byte != '\0'; byte++)
		if (*byte < 0x21 || *byte > 0x7e || *byte == '?' || *byte == '#')
			fail("--path-prefix must be visible ASCII without \"?\" and \"#\"");
	return copy;
}

void
options_read(options *options, int argc, char **argv)
{
	const char *prefix = "";
	const char *certificate = NULL;
	const char *key = NULL;
	int option;

	memset(options, 0, sizeof(*options));
	options->listen = DEFAULT_LISTEN;
	options->max_request_bytes = DEFAULT_REQUEST_BYTES;
	options->idle_seconds = DEFAULT_IDLE_SECONDS;
	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		switch (option)
		{
			case OPTION_LISTEN:
				options->listen = optarg;
				break;
			case OPTION_DATA:
				options->data = optarg;
				break;
			case OPTION_POLICY:
				options->policy = optarg;
				break;
			case OPTION_API_KEY:
				add_key(options, optarg);
				break;
			case OPTION_API_KEY_FILE:
				add_keys_of_file(options, optarg);
				break;
			case OPTION_TLS_CERT:
				certificate = optarg;
				break;
			case OPTION_TLS_KEY:
				key = optarg;
				break;
			case OPTION_PATH_PREFIX:
				prefix = optarg;
				break;
			case OPTION_ADMIN:
				options->admin = optarg;
				break;
			case OPTION_MAX_ROWS:
				options->max_rows = (uint32_t) number("max-rows", optarg, 1, UINT32_MAX);
				break;
			case OPTION_MAX_PAGE:
				options->max_page = (uint32_t) number("max-page", optarg, 1, UINT32_MAX);
				break;
			case OPTION_MAX_BATCH:
				options->max_batch = (uint32_t) number("max-batch", optarg, 1, UINT32_MAX);
				break;
			case OPTION_MAX_REQUEST_BYTES:
				options->max_request_bytes =
					number("max-request-bytes", optarg, 1, 1024 * 1024 * 1024);
				break;
			case OPTION_IDLE_TIMEOUT:
				options->idle_seconds = (unsigned) number("idle-timeout", optarg, 1, 86400);
				break;
			case OPTION_REPLICAS:
				options->replicas = (int) number("replicas", optarg, 1, CLUSTER_MAX_REPLICAS);
				break;
			case OPTION_LAG:
				options->lag_ms = (int64_t) number("lag", optarg, 0, CLUSTER_MAX_LAG_MS);
				break;
			case OPTION_SHARDS:
				options->shards = (int) number("shards", optarg, 1, VERDICT_REVISION_MAX_SHARDS);
				break;
			case OPTION_SYNC:
				options->sync = (int) number("sync", optarg, 0, CLUSTER_MAX_REPLICAS);
				break;
			case OPTION_EXIT_WITH_PARENT:
				options->exit_with_parent = true;
				break;
			case 'h':
				help();
				exit(0);
			default:
				fputs("Try \"verdict-dev --help\".\n", stderr);
				exit(2);
		}
	if (optind < argc)
		fail("\"%s\" is not an option", argv[optind]);
	if (options->replicas == 0 &&
		(options->lag_ms != 0 || options->shards != 0 || options->sync != 0))
		fail("--lag, --shards and --sync need --replicas");
	if (options->sync > options->replicas)
		fail("--sync must not be larger than --replicas");
	if (options->shards == 0)
		options->shards = 1;
	if ((certificate == NULL) != (key == NULL))
		fail("--tls-cert and --tls-key go together");
	if (certificate != NULL)
	{
		options->tls_certificate = read_or_fail(certificate);
		options->tls_key = read_or_fail(key);
	}
	options->path_prefix = check_prefix(prefix);
}

void
options_free(options *options)
{
	for (size_t i = 0; i < options->api_key_count; i++)
		free(options->api_keys[i]);
	free(options->api_keys);
	free(options->tls_certificate);
	free(options->tls_key);
	free(options->path_prefix);
}
