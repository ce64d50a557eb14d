// The policy language of the tests, evaluated the simplest way there is: every
// derivable row of every predicate, again and again until nothing is new.
//
// Values are compared by a string form: "identity:User:alice", "string:read",
// "integer:5", "boolean:true"; ANY stands for "every value is allowed here".

export const ANY = "any";

const TOKEN =
	/\s+|\/\/[^\n]*|([A-Za-z_][A-Za-z0-9_]*)|("(?:[^"\\]|\\.)*")|(-?\d+)|(<=|>=|!=|[<>=(),:;])/gy;

function tokenize(text) {
	const tokens = [];
	TOKEN.lastIndex = 0;
	while (TOKEN.lastIndex < text.length) {
		const at = TOKEN.lastIndex;
		const match = TOKEN.exec(text);
		if (!match) {
			const before = text.slice(0, at).split("\n");
			throw new SyntaxError(
				`line ${before.length} column ${before.at(-1).length + 1}: unknown token`);
		}
		const [, name, string, integer, sign] = match;
		if (name ?? string ?? integer ?? sign)
			tokens.push({ name, string, integer, sign, at });
	}
	return tokens;
}

/** Parses a policy to rules: {predicate, args, body: [{not, predicate, args}]}. */
export function parsePolicy(text) {
	const tokens = tokenize(text);
	let next = 0;
	const fail = (what) => {
		const before = text.slice(0, tokens[next]?.at ?? text.length).split("\n");
		throw new SyntaxError(
			`line ${before.length} column ${before.at(-1).length + 1}: ${what}`);
	};
	const sign = (wanted) => tokens[next]?.sign === wanted && ++next;
	const word = (wanted) => tokens[next]?.name === wanted && ++next;
	const expect = (wanted) => sign(wanted) || fail(`expected "${wanted}"`);
	const name = () => tokens[next]?.name ? tokens[next++].name : fail("expected a name");
	const string = () => JSON.parse(tokens[next++].string);

	const term = () => {
		const token = tokens[next];
		if (token?.string) return { value: `string:${string()}` };
		if (token?.integer) return { value: `integer:${(next++, BigInt(token.integer))}` };
		const first = name();
		if (first === "true" || first === "false") return { value: `boolean:${first}` };
		if (first === "_") return {};
		if (!sign(":")) return { variable: first };
		if (tokens[next]?.string) return { value: `identity:${first}:${string()}` };
		return { variable: first, type: name() };
	};
	const atom = () => {
		const predicate = name();
		const args = [];
		expect("(");
		if (!sign(")")) {
			do args.push(term()); while (sign(","));
			expect(")");
		}
		return { predicate, args };
	};
	const rules = [];
	while (next < tokens.length) {
		const rule = { ...atom(), body: [] };
		if (word("if"))
			do rule.body.push({ not: Boolean(word("not")), ...atom() }); while (word("and"));
		expect(";");
		rules.push(rule);
	}
	return rules;
}

const typeFits = (type, value) => !type || value.startsWith(`identity:${type}:`);

/** All bindings that extend "binding" so that the pattern matches the row. */
export function match(args, row, binding) {
	if (args.length !== row.length) return undefined;
	const extended = { ...binding };
	for (const [index, term] of args.entries()) {
		const value = row[index];
		if (value === ANY) continue;
		if (term.value !== undefined && term.value !== value) return undefined;
		if (term.variable === undefined) continue;
		if (!typeFits(term.type, value)) return undefined;
		const bound = extended[term.variable];
		if (bound !== undefined && bound !== value) return undefined;
		extended[term.variable] = value;
	}
	return extended;
}

/** Every derivable row: Map of predicate to Map of key to row. */
export function derive(rules, facts) {
	const rows = new Map();
	const of = (predicate) =>
		rows.get(predicate) ?? rows.set(predicate, new Map()).get(predicate);
	for (const { predicate, row } of facts) of(predicate).set(JSON.stringify(row), row);

	// A negated predicate is whole before a rule asks for its absence.
	const strata = new Map();
	const stratum = (predicate) => strata.get(predicate) ?? 0;
	for (let round = 0, changed = true; changed; round++) {
		if (round > rules.length + 1) throw new SyntaxError("line 1 column 1: not stratified");
		changed = false;
		for (const rule of rules)
			for (const literal of rule.body) {
				const needed = stratum(literal.predicate) + (literal.not ? 1 : 0);
				if (stratum(rule.predicate) < needed) {
					strata.set(rule.predicate, needed);
					changed = true;
				}
			}
	}
	const levels = [...new Set(rules.map((rule) => stratum(rule.predicate)))].sort();
	for (const level of levels)
		for (let grown = true; grown;) {
			grown = false;
			for (const rule of rules.filter((r) => stratum(r.predicate) === level)) {
				let bindings = [{}];
				const positive = rule.body.filter((literal) => !literal.not);
				for (const literal of [...positive, ...rule.body.filter((l) => l.not)]) {
					const candidates = [...of(literal.predicate).values()];
					bindings = bindings.flatMap((binding) => {
						const found = candidates
							.map((row) => match(literal.args, row, binding))
							.filter((extended) => extended);
						return literal.not ? (found.length ? [] : [binding]) : found;
					});
				}
				for (const binding of bindings) {
					const row = rule.args.map((term) =>
						term.value ?? binding[term.variable] ?? ANY);
					const typed = rule.args.every((term, index) =>
						row[index] === ANY || typeFits(term.type, row[index]));
					const key = JSON.stringify(row);
					if (typed && !of(rule.predicate).has(key)) {
						of(rule.predicate).set(key, row);
						grown = true;
					}
				}
			}
		}
	return rows;
}
