/*
 * policy_lexer.c
 *		From the text of a policy to its tokens.
 *
 * The text is not trusted: it may hold any bytes.  The lexer reads each once and
 * never past the end.
 */
#include "policy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

bool
policy_fail(engine_error *error, policy_place place, const char *format, ...)
{
	va_list arguments;
	char message[sizeof(error->message)];

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	return engine_fail(error, ENGINE_INVALID_ARGUMENT, "line %d column %d: %s", place.line,
					   place.column, message);
}

/* Steps over one character; false when it is not UTF-8 or a NUL. */
static bool
step(policy_lexer *lexer)
{
	size_t length = text_character(lexer->at, (size_t) (lexer->end - lexer->at));

	if (length == 0)
		return false;
	if (*lexer->at == '\n')
	{
		lexer->place.line++;
		lexer->place.column = 1;
	}
	else
		lexer->place.column++;
	lexer->at += length;
	return true;
}

static bool
at(const policy_lexer *lexer, const char *text)
{
	size_t size = strlen(text);

	return (size_t) (lexer->end - lexer->at) >= size && memcmp(lexer->at, text, size) == 0;
}

static bool
skip_space(policy_lexer *lexer, engine_error *error)
{
	while (lexer->at < lexer->end)
	{
		if (strchr(" \t\r\n", *lexer->at) != NULL && *lexer->at != '\0')
			step(lexer);
		else if (*lexer->at == '#' || at(lexer, "//"))
		{
			while (lexer->at < lexer->end && *lexer->at != '\n')
			{
				if (!step(lexer))
					return policy_fail(error, lexer->place, "the text is not valid UTF-8");
			}
		}
		else
			break;
	}
	return true;
}

static bool
read_string(policy_lexer *lexer, policy_token *token, engine_error *error)
{
	/* Escapes only make it shorter. */
	const char *close = memchr(lexer->at + 1, '\n', (size_t) (lexer->end - lexer->at - 1));
	char *text;
	size_t size = 0;

	if (close == NULL)
		close = lexer->end;
	/* Find the end first, to allocate no more than the string needs. */
	for (const char *c = lexer->at + 1; c < close; c++)
	{
		if (*c == '\\' && c + 1 < close)
			c++;
		else if (*c == '"')
			close = c;
	}
	text = pool_alloc(lexer->pool, (size_t) (close - lexer->at));
	step(lexer);
	for (;;)
	{
		const char *start = lexer->at;
		policy_place place = lexer->place;

		if (lexer->at == lexer->end || *lexer->at == '\n')
			return policy_fail(error, token->place, "the string does not end on its line");
		if (!step(lexer))
			return policy_fail(error, place, "the text is not valid UTF-8");
		if (*start == '"')
			break;
		if (*start == '\\')
		{
			static const char escapes[] = "\"\\nrt";
			static const char meanings[] = "\"\\\n\r\t";
			const char *escape = NULL;

			if (lexer->at < lexer->end && *lexer->at != '\0')
				escape = strchr(escapes, *lexer->at);
			if (escape == NULL)
				return policy_fail(error, place, "after a backslash comes one of \" \\ n r t");
			text[size++] = meanings[escape - escapes];
			step(lexer);
			continue;
		}
		memcpy(text + size, start, (size_t) (lexer->at - start));
		size += (size_t) (lexer->at - start);
	}
	text[size] = '\0';
	token->kind = POLICY_STRING;
	token->text = text;
	return true;
}

static bool
is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static bool
read_integer(policy_lexer *lexer, policy_token *token, engine_error *error)
{
	bool negative = *lexer->at == '-';
	uint64_t limit = negative ? (uint64_t) INT64_MAX + 1 : INT64_MAX;
	uint64_t number = 0;

	if (negative)
		step(lexer);
	while (lexer->at < lexer->end && is_name_character(*lexer->at))
	{
		unsigned digit = (unsigned char) *lexer->at - '0';

		if (digit > 9)
			return policy_fail(error, lexer->place, "a number holds digits only");
		if (number > (limit - digit) / 10)
			return policy_fail(error, token->place, "the number does not fit 64 bits");
		number = number * 10 + digit;
		step(lexer);
	}
	token->kind = POLICY_INTEGER;
	token->integer = negative ? (int64_t) (0 - number) : (int64_t) number;
	return true;
}

static bool
read_name(policy_lexer *lexer, policy_token *token, engine_error *error)
{
	static const struct
	{
		const char *text;
		policy_token_kind kind;
	} words[] = {{"_", POLICY_UNDERSCORE}, {"if", POLICY_IF},	  {"and", POLICY_AND},
				 {"not", POLICY_NOT},	   {"true", POLICY_TRUE}, {"false", POLICY_FALSE},
				 {NULL, POLICY_NAME}};
	const char *start = lexer->at;
	size_t size;
	int word = 0;

	while (lexer->at < lexer->end && is_name_character(*lexer->at))
		step(lexer);
	size = (size_t) (lexer->at - start);
	if (size > TEXT_MAX_IDENTIFIER)
		return policy_fail(error, token->place, "a name has at most %d characters",
						   TEXT_MAX_IDENTIFIER);
	while (words[word].text != NULL &&
		   (strlen(words[word].text) != size || memcmp(words[word].text, start, size) != 0))
		word++;
	token->kind = words[word].kind;
	token->text = pool_copy(lexer->pool, start, size);
	return true;
}

static bool
read_mark(policy_lexer *lexer, policy_token *token, engine_error *error)
{
	/* Those of two characters come before those they begin with. */
	static const struct
	{
		const char *text;
		policy_token_kind kind;
	} marks[] = {{"<=", POLICY_LESS_EQUAL}, {">=", POLICY_GREATER_EQUAL}, {"!=", POLICY_NOT_EQUAL},
				 {"(", POLICY_OPEN},		{")", POLICY_CLOSE},		  {",", POLICY_COMMA},
				 {";", POLICY_SEMICOLON},	{":", POLICY_COLON},		  {"<", POLICY_LESS},
				 {">", POLICY_GREATER},		{"=", POLICY_EQUAL}};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
	{
		if (at(lexer, marks[i].text))
		{
			token->kind = marks[i].kind;
			for (const char *c = marks[i].text; *c != '\0'; c++)
				step(lexer);
			return true;
		}
	}
	if (!step(lexer))
		return policy_fail(error, token->place, "the text is not valid UTF-8");
	return policy_fail(error, token->place, "\"%.*s\" means nothing here",
					   (int) (lexer->at - token->start), token->start);
}

bool
policy_next_token(policy_lexer *lexer, policy_token *token, engine_error *error)
{
	bool done;

	memset(token, 0, sizeof(*token));
	if (!skip_space(lexer, error))
		return false;
	token->place = lexer->place;
	token->start = lexer->at;
	if (lexer->at == lexer->end)
	{
		token->kind = POLICY_END;
		return true;
	}
	if (*lexer->at == '"')
		done = read_string(lexer, token, error);
	else if ((*lexer->at >= '0' && *lexer->at <= '9') ||
			 (*lexer->at == '-' && lexer->at + 1 < lexer->end && lexer->at[1] >= '0' &&
			  lexer->at[1] <= '9'))
		done = read_integer(lexer, token, error);
	else if (is_name_character(*lexer->at))
		done = read_name(lexer, token, error);
	else
		done = read_mark(lexer, token, error);
	token->size = (size_t) (lexer->at - token->start);
	return done;
}
