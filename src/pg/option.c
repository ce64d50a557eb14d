/*
 * option.c
 *		The options table of servers and user mappings, and the validator.
 *
 * An option is checked where it is written, by the same code that later reads
 * it.  SQLSTATEs: HV00D for an option that does not exist or stands in the wrong
 * place, HV00J for one that is missing, 22023 for a value that cannot be used,
 * 42710 for one given twice.  The value of a secret is in no message.
 */
#include "option.h"

#include <errno.h>

#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "error.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

/*
 * The default is far below the bundled instance's cap of 10,000 changes, and large
 * enough for a call to cost little beside its changes.
 */
#define BATCH_SIZE_MIN 1
#define BATCH_SIZE_DEFAULT 1000
#define BATCH_SIZE_MAX 10000

typedef enum option_kind
{
	OPTION_URL,
	OPTION_KEY,
	OPTION_PATH,
	OPTION_WORD, /* one of a list */
	OPTION_BOOLEAN,
	OPTION_INTEGER
} option_kind;

typedef struct option_word
{
	const char *text; /* NULL ends the list */
	int value;
} option_word;

typedef struct verdict_option
{
	const char *name;
	Oid catalog; /* ForeignServerRelationId or UserMappingRelationId */
	option_kind kind;
	size_t offset;			  /* of its field in verdict_server_options */
	const option_word *words; /* OPTION_WORD */
	int64 minimum;			  /* OPTION_INTEGER */
	int64 maximum;
} verdict_option;

static const option_word wire_formats[] = {
	{"binary", VERDICT_WIRE_BINARY},
	{"json", VERDICT_WIRE_JSON},
	{NULL, 0},
};

static const option_word http_versions[] = {
	{"1.1", VERDICT_HTTP_1_1},
	{"2", VERDICT_HTTP_2},
	{NULL, 0},
};

static const option_word retry_owners[] = {
	{"client", VERDICT_RETRY_CLIENT},
	{"application", VERDICT_RETRY_APPLICATION},
	{"mesh", VERDICT_RETRY_MESH},
	{"none", VERDICT_RETRY_NONE},
	{NULL, 0},
};

/* clang-format off */
#define FIELD(name) offsetof(verdict_server_options, client.name)
#define TIMEOUT(name) {#name, ForeignServerRelationId, OPTION_INTEGER, FIELD(name), \
	NULL, VERDICT_TIMEOUT_MIN_MS, VERDICT_TIMEOUT_MAX_MS}

static const verdict_option all_options[] = {
	{"instance_url", ForeignServerRelationId, OPTION_URL, FIELD(instance_url), NULL, 0, 0},
	{"wire_format", ForeignServerRelationId, OPTION_WORD, FIELD(wire_format), wire_formats, 0, 0},
	{"http_version", ForeignServerRelationId, OPTION_WORD, FIELD(http_version), http_versions, 0, 0},
	{"retry_owner", ForeignServerRelationId, OPTION_WORD, FIELD(retry_owner), retry_owners, 0, 0},
	{"retry_http_503", ForeignServerRelationId, OPTION_BOOLEAN, FIELD(retry_http_503), NULL, 0, 0},
	TIMEOUT(mutation_attempt_timeout_ms),
	TIMEOUT(mutation_overall_timeout_ms),
	TIMEOUT(read_timeout_ms),
	{"max_response_bytes", ForeignServerRelationId, OPTION_INTEGER, FIELD(max_response_bytes), NULL,
	VERDICT_RESPONSE_BYTES_MIN, VERDICT_RESPONSE_BYTES_MAX},
	{"batch_size", ForeignServerRelationId, OPTION_INTEGER,
	offsetof(verdict_server_options, batch_size), NULL, BATCH_SIZE_MIN, BATCH_SIZE_MAX},
	{"ssl_ca_file", ForeignServerRelationId, OPTION_PATH, FIELD(ssl_ca_file), NULL, 0, 0},
	{"api_key", UserMappingRelationId, OPTION_KEY, FIELD(api_key), NULL, 0, 0}
};
/* clang-format on */

StaticAssertDecl(sizeof(verdict_wire_format) == sizeof(int) &&
					 sizeof(verdict_http_version) == sizeof(int) &&
					 sizeof(verdict_retry_owner) == sizeof(int),
				 "an option of a list is stored as an int");

static const char *
catalog_object(Oid catalog)
{
	return catalog == UserMappingRelationId ? "USER MAPPING" : "SERVER";
}

/* "a, b, c": the options that belong to a catalog. */
static char *
option_names(Oid catalog)
{
	StringInfoData names;

	initStringInfo(&names);
	for (size_t i = 0; i < lengthof(all_options); i++)
	{
		if (all_options[i].catalog == catalog)
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", all_options[i].name);
	}
	return names.data;
}

static const verdict_option *
find_option(const char *name, Oid catalog)
{
	const verdict_option *elsewhere = NULL;

	for (size_t i = 0; i < lengthof(all_options); i++)
	{
		if (strcmp(all_options[i].name, name) != 0)
			continue;
		if (all_options[i].catalog == catalog)
			return &all_options[i];
		elsewhere = &all_options[i];
	}

	if (elsewhere != NULL)
		ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
						errmsg("option \"%s\" does not belong here", name),
						errhint("Give it to the %s.", catalog_object(elsewhere->catalog))));
	if (catalog == ForeignServerRelationId || catalog == UserMappingRelationId)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME), errmsg("invalid option \"%s\"", name),
				 errhint("Valid options of a %s are: %s.", catalog_object(catalog),
						 option_names(catalog))));
	ereport(
		ERROR,
		(errcode(ERRCODE_FDW_INVALID_OPTION_NAME), errmsg("invalid option \"%s\"", name),
		 errhint("There are no valid options here; options belong to SERVER and USER MAPPING.")));
}

static void bad_value(const verdict_option *option, const char *value, const char *expected)
	pg_attribute_noreturn();

static void
bad_value(const verdict_option *option, const char *value, const char *expected)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
					errhint("%s", expected)));
}

static int
read_word(const verdict_option *option, const char *value)
{
	StringInfoData expected;

	for (const option_word *word = option->words; word->text != NULL; word++)
	{
		if (strcmp(word->text, value) == 0)
			return word->value;
	}
	initStringInfo(&expected);
	appendStringInfoString(&expected, "Valid values are: ");
	for (const option_word *word = option->words; word->text != NULL; word++)
		appendStringInfo(&expected, "%s%s", word == option->words ? "" : ", ", word->text);
	appendStringInfoChar(&expected, '.');
	bad_value(option, value, expected.data);
}

static int64
read_integer(const verdict_option *option, const char *value)
{
	char *end;
	int64 number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' ||
		strspn(value, "-0123456789") != strlen(value) || number < option->minimum ||
		number > option->maximum)
		bad_value(option, value,
				  psprintf("Give an integer from " INT64_FORMAT " to " INT64_FORMAT ".",
						   option->minimum, option->maximum));
	return number;
}

/* Checks one value and stores it. */
static void
read_option(const verdict_option *option, DefElem *element, verdict_server_options *options)
{
	void *field = (char *) options + option->offset;
	verdict_status status;

	verdict_status_init(&status);
	switch (option->kind)
	{
		case OPTION_URL:
			if (!verdict_instance_url_check(defGetString(element), &status))
				verdict_report_bad_text(&status, ERRCODE_INVALID_PARAMETER_VALUE,
										"value for option \"instance_url\"");
			*(const char **) field = defGetString(element);
			break;
		case OPTION_KEY:
			if (!verdict_api_key_check(defGetString(element), &status))
				verdict_report_bad_text(&status, ERRCODE_INVALID_PARAMETER_VALUE,
										"value for option \"api_key\"");
			*(const char **) field = defGetString(element);
			break;
		case OPTION_PATH:
			if (!is_absolute_path(defGetString(element)))
				bad_value(option, defGetString(element), "Give an absolute path.");
			*(const char **) field = defGetString(element);
			break;
		case OPTION_WORD:
			*(int *) field = read_word(option, defGetString(element));
			break;
		case OPTION_BOOLEAN:
			if (!parse_bool(defGetString(element), (bool *) field))
				bad_value(option, defGetString(element), "Give true or false.");
			break;
		case OPTION_INTEGER:
			if (option->offset == FIELD(max_response_bytes))
				*(size_t *) field = (size_t) read_integer(option, defGetString(element));
			else
				*(int *) field = (int) read_integer(option, defGetString(element));
			break;
	}
}

/* Reads a list of one catalog into "options". */
static void
read_list(List *list, Oid catalog, verdict_server_options *options)
{
	bool seen[lengthof(all_options)] = {false};
	ListCell *cell;

	foreach (cell, list)
	{
		DefElem *element = lfirst_node(DefElem, cell);
		const verdict_option *option = find_option(element->defname, catalog);

		if (seen[option - all_options])
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
							errmsg("option \"%s\" provided more than once", option->name)));
		seen[option - all_options] = true;
		read_option(option, element, options);
	}
}

static bool
list_has(List *list, const char *name)
{
	ListCell *cell;

	foreach (cell, list)
	{
		if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
			return true;
	}
	return false;
}

static void
options_init(verdict_server_options *options)
{
	verdict_client_options_init(&options->client);
	options->batch_size = BATCH_SIZE_DEFAULT;
}

/* Refuses options that could do nothing beside the others. */
static void
check_effects(List *list, const verdict_server_options *options)
{
	bool secure = pg_strncasecmp(options->client.instance_url, "https:", 6) == 0;

	if (options->client.http_version == VERDICT_HTTP_2 && !secure)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("http_version 2 needs an https instance_url"),
						errdetail("HTTP/2 is agreed on by TLS.")));
	if (options->client.ssl_ca_file != NULL && !secure)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("ssl_ca_file needs an https instance_url"),
						errdetail("Without TLS there is no certificate to check.")));
	if (options->client.retry_owner != VERDICT_RETRY_CLIENT && options->client.retry_http_503 &&
		list_has(list, "retry_http_503"))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("retry_http_503 needs retry_owner \"client\""),
						errdetail("With any other owner this client sends every call once.")));
	if (options->client.mutation_attempt_timeout_ms > options->client.mutation_overall_timeout_ms &&
		list_has(list, "mutation_attempt_timeout_ms"))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("mutation_attempt_timeout_ms must not be larger than "
							   "mutation_overall_timeout_ms"),
						errdetail("A change ends after %d ms, before an attempt of %d ms could.",
								  options->client.mutation_overall_timeout_ms,
								  options->client.mutation_attempt_timeout_ms),
						errhint("Raise mutation_overall_timeout_ms as well.")));
}

/* The options of a server, and what they mean together. */
static void
read_server(List *list, verdict_server_options *options)
{
	options_init(options);
	read_list(list, ForeignServerRelationId, options);

	if (options->client.instance_url == NULL)
		ereport(ERROR, (errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
						errmsg("option \"instance_url\" is required"),
						errhint("CREATE SERVER ... FOREIGN DATA WRAPPER verdict OPTIONS "
								"(instance_url 'https://...').")));
	check_effects(list, options);
	if (options->client.retry_owner != VERDICT_RETRY_CLIENT)
		options->client.retry_http_503 = false;
}

void
verdict_options_read(const ForeignServer *server, const UserMapping *mapping,
					 verdict_server_options *options)
{
	read_server(server->options, options);
	read_list(mapping->options, UserMappingRelationId, options);
}

PG_FUNCTION_INFO_V1(verdict_sql_validator);

/*
 * Called with the whole list whenever options are written, and with an empty one
 * for an object without options.
 */
Datum
verdict_sql_validator(PG_FUNCTION_ARGS)
{
	List *list = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid catalog = PG_GETARG_OID(1);
	verdict_server_options options;

	options_init(&options);
	switch (catalog)
	{
		case ForeignServerRelationId:
			read_server(list, &options);
			break;
		case ForeignTableRelationId:
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("a Verdict instance has no foreign tables"),
							errhint("Read it with verdict_query() or verdict_list_facts().")));
			break;
		default:
			read_list(list, catalog, &options);
			break;
	}
	PG_RETURN_VOID();
}
