/*
 * faults.c
 *		Reads orders, keeps them, hands them out.
 *
 * Everything about an order is checked when it is given, so that a test that
 * misspells one fails there and not by a fault that never comes.  The mutex
 * guards the list and the counts of users.
 */
#include "faults.h"

#include "service.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct order
{
	char *method;
	int64_t skip;
	int64_t times; /* left; -1 = without end */
	json_t *text;  /* of the fault, as it was given */
	fault *fault;
	struct order *next;
} order;

struct faults
{
	pthread_mutex_t mutex;
	order *first;
	int count; /* read without the mutex: the common case is 0 */
};

static pthread_mutex_t users_mutex = PTHREAD_MUTEX_INITIALIZER;

/* What each kind takes besides "kind"; names end with a space. */
typedef struct kind_rule
{
	const char *name;
	const char *takes;
	bool runs; /* unless the order says otherwise */
} kind_rule;

static const kind_rule kind_rules[] = {
	[FAULT_STATUS] = {"status", "run headers status body content_type ", false},
	[FAULT_ERROR] = {"error", "run headers code message status ", false},
	[FAULT_STALL] = {"stall", "ms when headers ", true},
	[FAULT_CLOSE] = {"close", "when reset ", false},
	[FAULT_CUT] = {"cut", "bytes headers ", true},
	[FAULT_CUT_CHUNKED] = {"cut_chunked", "bytes headers ", true},
	[FAULT_CUT_UNDELIMITED] = {"cut_undelimited", "bytes headers ", true},
	[FAULT_DRIP] = {"drip", "bytes_per_second headers ", true},
	[FAULT_OVERSIZE] = {"oversize", "run headers bytes ", false},
	[FAULT_GZIP_BOMB] = {"gzip_bomb", "run headers bytes ", false},
	[FAULT_CONTENT_TYPE] = {"content_type", "headers value ", true},
	[FAULT_REVISION] = {"revision", "headers values ", true},
	[FAULT_BODY] = {"body", "run headers hex content_type ", false},
	[FAULT_HEADER_FLOOD] = {"header_flood", "run bytes ", false},
	[FAULT_REDIRECT] = {"redirect", "run headers location status ", false},
};

#define KIND_COUNT (sizeof(kind_rules) / sizeof(kind_rules[0]))
#define MAX_MS (24 * 3600 * 1000)
#define MAX_BYTES (INT64_C(1) << 40)

/* Where a reader of an order leaves its complaint; the first one stays. */
typedef struct complaint
{
	char *message;
	size_t size;
	bool made;
} complaint;

static void
complain(complaint *complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
complain(complaint *complaint, const char *format, ...)
{
	va_list arguments;

	if (complaint->made)
		return;
	complaint->made = true;
	va_start(arguments, format);
	vsnprintf(complaint->message, complaint->size, format, arguments);
	va_end(arguments);
}

const char *
fault_kind_name(fault_kind kind)
{
	return kind_rules[kind].name;
}

/* The memory of these programs is small; a null here is only reported. */
static char *
copy_text(const char *text, complaint *complaint)
{
	char *copy = strdup(text);

	if (copy == NULL)
		complain(complaint, "out of memory");
	return copy;
}

static bool
get_boolean(json_t *object, const char *name, bool otherwise, complaint *complaint)
{
	json_t *value = json_object_get(object, name);

	if (value == NULL)
		return otherwise;
	if (!json_is_boolean(value))
		complain(complaint, "\"%s\" must be true or false", name);
	return json_is_true(value);
}

static int64_t
get_integer(json_t *object, const char *name, int64_t otherwise, int64_t minimum, int64_t maximum,
			complaint *complaint)
{
	json_t *value = json_object_get(object, name);

	if (value == NULL)
	{
		if (otherwise == INT64_MIN)
			complain(complaint, "\"%s\" is missing", name);
		return otherwise;
	}
	if (!json_is_integer(value) || json_integer_value(value) < minimum ||
		json_integer_value(value) > maximum)
		complain(complaint, "\"%s\" must be an integer from %" PRId64 " to %" PRId64, name, minimum,
				 maximum);
	return json_integer_value(value);
}

/* The text or NULL; it is the object's. */
static const char *
get_text(json_t *object, const char *name, bool needed, complaint *complaint)
{
	json_t *value = json_object_get(object, name);

	if (value == NULL)
	{
		if (needed)
			complain(complaint, "\"%s\" is missing", name);
		return NULL;
	}
	if (!json_is_string(value))
	{
		complain(complaint, "\"%s\" must be a string", name);
		return NULL;
	}
	return json_string_value(value);
}

/* libmicrohttpd decides what can be a header: ask it now, not when it is late. */
static void
add_header(fault *fault, const char *name, const char *value, complaint *complaint)
{
	struct MHD_Response *trial = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	fault_header *headers;

	if (trial == NULL || MHD_add_response_header(trial, name, value) != MHD_YES)
		complain(complaint, "header \"%s\" cannot be sent with that value", name);
	if (trial != NULL)
		MHD_destroy_response(trial);
	headers = realloc(fault->headers, (fault->header_count + 1) * sizeof(*headers));
	if (headers == NULL)
	{
		complain(complaint, "out of memory");
		return;
	}
	fault->headers = headers;
	headers += fault->header_count++;
	headers->name = copy_text(name, complaint);
	headers->value = copy_text(value, complaint);
}

/* "values": one string or an array of strings, a header each. */
static void
add_headers(fault *fault, const char *name, json_t *values, complaint *complaint)
{
	if (json_is_string(values))
		add_header(fault, name, json_string_value(values), complaint);
	else if (json_is_array(values))
	{
		size_t index;
		json_t *value;

		json_array_foreach(values, index, value)
		{
			if (json_is_string(value))
				add_header(fault, name, json_string_value(value), complaint);
			else
				complain(complaint, "a value of header \"%s\" must be a string", name);
		}
	}
	else
		complain(complaint, "header \"%s\" must be a string or an array of strings", name);
}

static int
hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

static void
read_hex(fault *fault, const char *hex, complaint *complaint)
{
	size_t size = strlen(hex);

	fault->body = malloc(size / 2 + 1);
	if (fault->body == NULL)
	{
		complain(complaint, "out of memory");
		return;
	}
	for (size_t i = 0; i + 1 < size; i += 2)
	{
		int high = hex_digit(hex[i]);
		int low = hex_digit(hex[i + 1]);

		if (high < 0 || low < 0)
			complain(complaint, "\"hex\" holds something that is not a hexadecimal digit");
		else
			fault->body[i / 2] = (char) (high << 4 | low);
	}
	if (size % 2 != 0)
		complain(complaint, "\"hex\" must have an even number of digits");
	fault->body_size = size / 2;
}

/* Refuses a member that this kind of fault does not take. */
static void
check_names(json_t *object, const kind_rule *rule, complaint *complaint)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		char word[64];
		const char *found;

		if (strcmp(name, "kind") == 0)
			continue;
		snprintf(word, sizeof(word), "%s ", name);
		found = strstr(rule->takes, word);
		if (found == NULL || (found > rule->takes && found[-1] != ' '))
			complain(complaint, "a fault of kind \"%s\" takes no \"%s\" (it takes: %s)", rule->name,
					 name, rule->takes);
	}
}

static void
read_members(fault *fault, json_t *object, bool tls, complaint *complaint)
{
	const char *text;
	const char *name;
	json_t *values;
	json_t *headers = json_object_get(object, "headers");

	fault->run = get_boolean(object, "run", kind_rules[fault->kind].runs, complaint);
	fault->reset = get_boolean(object, "reset", false, complaint);
	fault->status = (int) get_integer(object, "status", fault->kind == FAULT_STATUS ? INT64_MIN : 0,
									  200, 999, complaint);
	fault->bytes_per_second =
		get_integer(object, "bytes_per_second", fault->kind == FAULT_DRIP ? INT64_MIN : 1, 1,
					1000000, complaint);
	fault->ms =
		get_integer(object, "ms", fault->kind == FAULT_STALL ? INT64_MIN : 0, 0, MAX_MS, complaint);
	fault->bytes = get_integer(object, "bytes",
							   fault->kind == FAULT_OVERSIZE || fault->kind == FAULT_GZIP_BOMB ||
									   fault->kind == FAULT_HEADER_FLOOD
								   ? INT64_MIN
								   : -1,
							   0, MAX_BYTES, complaint);
	if (fault->kind == FAULT_HEADER_FLOOD && tls)
		complain(complaint, "a header flood cannot be sent over TLS");

	if ((text = get_text(object, "when", false, complaint)) != NULL)
	{
		if (strcmp(text, "after") == 0)
			fault->after = true;
		else if (strcmp(text, "before") != 0)
			complain(complaint, "\"when\" must be \"before\" or \"after\"");
		if (fault->kind == FAULT_CLOSE)
			fault->run = fault->after;
	}
	if ((text = get_text(object, "code", fault->kind == FAULT_ERROR, complaint)) != NULL)
	{
		fault->code = verdict_code_from_name(text);
		if (fault->code == VERDICT_OK)
			complain(complaint, "\"%s\" is not a code of Connect", text);
	}
	if ((text = get_text(object, "message", false, complaint)) != NULL)
		fault->message = copy_text(text, complaint);
	text = get_text(object, fault->kind == FAULT_CONTENT_TYPE ? "value" : "content_type",
					fault->kind == FAULT_CONTENT_TYPE, complaint);
	if (text != NULL)
	{
		fault->content_type = copy_text(text, complaint);
		if (*text == '\0' || strpbrk(text, "\r\n\t") != NULL)
			complain(complaint, "that content type cannot be sent");
	}
	if ((text = get_text(object, "body", false, complaint)) != NULL)
	{
		fault->body = copy_text(text, complaint);
		fault->body_size = strlen(text);
	}
	if ((text = get_text(object, "hex", fault->kind == FAULT_BODY, complaint)) != NULL)
		read_hex(fault, text, complaint);
	if ((text = get_text(object, "location", fault->kind == FAULT_REDIRECT, complaint)) != NULL)
		add_header(fault, "Location", text, complaint);
	if (fault->kind == FAULT_REVISION)
	{
		values = json_object_get(object, "values");
		if (values == NULL)
			complain(complaint, "\"values\" is missing");
		else
			add_headers(fault, "Verdict-Revision", values, complaint);
	}
	if (headers != NULL && !json_is_object(headers))
		complain(complaint, "\"headers\" must be an object");
	json_object_foreach(headers, name, values) add_headers(fault, name, values, complaint);
}

static void
fault_free(fault *fault)
{
	for (size_t i = 0; i < fault->header_count; i++)
	{
		free(fault->headers[i].name);
		free(fault->headers[i].value);
	}
	free(fault->headers);
	free(fault->message);
	free(fault->content_type);
	free(fault->body);
	free(fault);
}

static fault *
read_fault(json_t *object, bool tls, complaint *complaint)
{
	fault *fault;
	const char *kind;
	size_t i;

	if (!json_is_object(object))
	{
		complain(complaint, "\"fault\" must be an object");
		return NULL;
	}
	kind = get_text(object, "kind", true, complaint);
	if (kind == NULL)
		return NULL;
	for (i = 0; i < KIND_COUNT && strcmp(kind_rules[i].name, kind) != 0; i++)
		;
	if (i == KIND_COUNT)
	{
		complain(complaint, "there is no kind of fault \"%s\"", kind);
		return NULL;
	}
	fault = calloc(1, sizeof(*fault));
	if (fault == NULL)
	{
		complain(complaint, "out of memory");
		return NULL;
	}
	fault->kind = (fault_kind) i;
	fault->users = 1;
	check_names(object, &kind_rules[i], complaint);
	read_members(fault, object, tls, complaint);
	return fault;
}

void
fault_release(fault *fault)
{
	bool last;

	if (fault == NULL)
		return;
	pthread_mutex_lock(&users_mutex);
	last = --fault->users == 0;
	pthread_mutex_unlock(&users_mutex);
	if (last)
		fault_free(fault);
}

static void
order_free(order *order)
{
	fault_release(order->fault);
	json_decref(order->text);
	free(order->method);
	free(order);
}

faults *
faults_create(void)
{
	faults *faults = calloc(1, sizeof(*faults));

	if (faults != NULL)
		pthread_mutex_init(&faults->mutex, NULL);
	return faults;
}

void
faults_destroy(faults *faults)
{
	if (faults == NULL)
		return;
	faults_clear(faults);
	pthread_mutex_destroy(&faults->mutex);
	free(faults);
}

bool
faults_add(faults *faults, json_t *object, bool tls, char *message, size_t message_size)
{
	complaint complaint = {message, message_size, false};
	const char *method;
	const char *name;
	json_t *value;
	order *new;
	order **place;

	if (!json_is_object(object))
	{
		complain(&complaint, "an order must be an object");
		return false;
	}
	json_object_foreach(object, name,
						value) if (strcmp(name, "method") != 0 && strcmp(name, "times") != 0 &&
								   strcmp(name, "skip") != 0 && strcmp(name, "fault") != 0)
		complain(&complaint, "an order takes no \"%s\" (it takes: method, times, skip, fault)",
				 name);
	method = get_text(object, "method", true, &complaint);
	if (method != NULL && strcmp(method, "*") != 0 &&
		service_method_by_name(method, strlen(method)) == NULL)
		complain(&complaint, "there is no method \"%s\"", method);
	new = calloc(1, sizeof(*new));
	if (new == NULL)
	{
		complain(&complaint, "out of memory");
		return false;
	}
	if (method != NULL)
		new->method = copy_text(method, &complaint);
	new->times = get_integer(object, "times", 1, -1, 1000000000, &complaint);
	new->skip = get_integer(object, "skip", 0, 0, 1000000000, &complaint);
	if (new->times == 0)
		complain(&complaint, "\"times\" must not be 0");
	value = json_object_get(object, "fault");
	if (value == NULL)
		complain(&complaint, "\"fault\" is missing");
	else
	{
		new->text = json_deep_copy(value);
		new->fault = read_fault(value, tls, &complaint);
	}
	if (complaint.made)
	{
		order_free(new);
		return false;
	}
	pthread_mutex_lock(&faults->mutex);
	for (place = &faults->first; *place != NULL; place = &(*place)->next)
		;
	*place = new;
	__atomic_add_fetch(&faults->count, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&faults->mutex);
	return true;
}

void
faults_clear(faults *faults)
{
	order *order;

	pthread_mutex_lock(&faults->mutex);
	while ((order = faults->first) != NULL)
	{
		faults->first = order->next;
		order_free(order);
	}
	__atomic_store_n(&faults->count, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&faults->mutex);
}

json_t *
faults_json(faults *faults)
{
	json_t *array = json_array();

	pthread_mutex_lock(&faults->mutex);
	for (order *order = faults->first; order != NULL; order = order->next)
		json_array_append_new(array,
							  json_pack("{s:s, s:I, s:I, s:o}", "method", order->method, "times",
										(json_int_t) order->times, "skip", (json_int_t) order->skip,
										"fault", json_deep_copy(order->text)));
	pthread_mutex_unlock(&faults->mutex);
	return array;
}

fault *
faults_take(faults *faults, const char *method)
{
	fault *taken = NULL;

	if (__atomic_load_n(&faults->count, __ATOMIC_RELAXED) == 0)
		return NULL;
	pthread_mutex_lock(&faults->mutex);
	for (order **place = &faults->first; *place != NULL && taken == NULL; place = &(*place)->next)
	{
		order *order = *place;

		if (strcmp(order->method, "*") != 0 && strcmp(order->method, method) != 0)
			continue;
		if (order->skip > 0)
		{
			order->skip--;
			continue;
		}
		taken = order->fault;
		pthread_mutex_lock(&users_mutex);
		taken->users++;
		pthread_mutex_unlock(&users_mutex);
		if (order->times > 0 && --order->times == 0)
		{
			*place = order->next;
			order_free(order);
			__atomic_sub_fetch(&faults->count, 1, __ATOMIC_RELAXED);
			break;
		}
	}
	pthread_mutex_unlock(&faults->mutex);
	return taken;
}
