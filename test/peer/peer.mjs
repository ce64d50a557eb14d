// An independent instance of Verdict, written from the wire contract on the
// official Connect implementation.  For tests: everything is in memory.
//
//	node peer.mjs --descriptor FILE [--api-key KEY] [--revisions]
//		[--path-prefix /PREFIX] [--tls-cert FILE --tls-key FILE]
//
// --descriptor is the FileDescriptorSet of verdict.proto; --revisions makes it
// answer as the writer of a replicated setup does.  With TLS it speaks HTTP/2
// and HTTP/1.1 by ALPN, else HTTP/1.1.  Prints "listening on URL" when ready.
// GET /log (outside of the service) tells what was sent: method, HTTP version,
// wire format, idempotency key.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createSecureServer } from "node:http2";
import { parseArgs } from "node:util";
import { createFileRegistry, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ANY, derive, match, parsePolicy } from "./policy.mjs";

const { values: options } = parseArgs({
	options: {
		descriptor: { type: "string" },
		"api-key": { type: "string" },
		revisions: { type: "boolean" },
		"path-prefix": { type: "string", default: "" },
		"tls-cert": { type: "string" },
		"tls-key": { type: "string" },
	},
});
const registry = createFileRegistry(
	fromBinary(FileDescriptorSetSchema, readFileSync(options.descriptor)));
const service = registry.getService("verdict.v1.VerdictService");

const facts = new Map(); // key of predicate and row -> {predicate, row}
let policyText = "";
let rules = [];
let derived; // what derive() gave for today's facts and rules
let position = 0n;
const answers = new Map(); // caller, method and key -> {payload, response}
const log = [];

const invalid = (message) => new ConnectError(message, Code.InvalidArgument);
const precondition = (message) => new ConnectError(message, Code.FailedPrecondition);

function fromValue(value, place) {
	const { case: kind, value: content } = value.kind;
	if (kind === undefined) throw invalid(`${place}: a value is unset`);
	if (kind !== "identity") return `${kind}:${content}`;
	if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(content.type) || !content.id)
		throw invalid(`${place}: an identity has a type and an id`);
	return `identity:${content.type}:${content.id}`;
}

function toValue(text) {
	if (text === ANY) return { kind: { case: undefined } };
	const [kind, rest] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
	const colon = rest.indexOf(":");
	const value = {
		identity: () => ({ type: rest.slice(0, colon), id: rest.slice(colon + 1) }),
		string: () => rest,
		integer: () => BigInt(rest),
		boolean: () => rest === "true",
	}[kind]();
	return { kind: { case: kind, value } };
}

function fromFact(fact, place) {
	if (!fact?.predicate) throw invalid(`${place}.predicate: empty`);
	if (fact.predicate === "allow") throw invalid(`${place}: allow is derived, never stored`);
	return {
		predicate: fact.predicate,
		row: fact.args.map((value, index) => fromValue(value, `${place}.args[${index}]`)),
	};
}

function fromPattern(pattern) {
	return pattern.args.map(({ kind }, index) => {
		if (kind.case === "value") return { value: fromValue(kind.value, `pattern.args[${index}]`) };
		if (kind.case === "variable") return { variable: kind.value.name, type: kind.value.type };
		return {};
	});
}

function rowsOf(predicate) {
	derived ??= derive(rules, facts.values());
	return [...(derived.get(predicate)?.values() ?? [])];
}

function change(insert, fact, place) {
	const { predicate, row } = fromFact(fact, place);
	const key = JSON.stringify([predicate, row]);
	return { insert, key, predicate, row };
}

function apply(steps) {
	let changed = 0;
	for (const { insert, key, predicate, row } of steps) {
		if (facts.has(key) === insert) continue;
		if (insert) facts.set(key, { predicate, row });
		else facts.delete(key);
		changed++;
	}
	derived = undefined;
	return changed;
}

const reads = {
	authorize({ actor, action, resource }) {
		const goal = [
			fromValue({ kind: { case: "identity", value: actor } }, "actor"),
			`string:${action}`,
			fromValue({ kind: { case: "identity", value: resource } }, "resource"),
		].map((value) => ({ value }));
		return { allowed: rowsOf("allow").some((row) => match(goal, row, {})) };
	},
	query({ pattern, limit }) {
		const args = fromPattern(pattern);
		if (pattern.predicate === "allow" && args.length !== 3)
			throw invalid("pattern: allow has 3 arguments");
		const variables = [...new Set(args.flatMap(({ variable }) => variable ?? []))];
		const rows = new Map();
		for (const row of rowsOf(pattern.predicate)) {
			const binding = match(args, row, {});
			if (!binding) continue;
			const values = variables.map((variable) => binding[variable] ?? ANY);
			rows.set(JSON.stringify(values), { values: values.map(toValue) });
		}
		const all = [...rows.values()];
		return {
			variables,
			rows: limit ? all.slice(0, limit) : all,
			truncated: limit > 0 && all.length > limit,
		};
	},
	listFacts({ pattern, limit, after }) {
		const page = limit || 1000;
		const args = pattern ? fromPattern(pattern) : [];
		const all = [...facts.values()]
			.filter(({ predicate, row }) => !pattern?.predicate
				|| (predicate === pattern.predicate && (!args.length || match(args, row, {}))));
		const from = Number(Buffer.from(after).toString() || 0);
		return {
			facts: all.slice(from, from + page)
				.map(({ predicate, row }) => ({ predicate, args: row.map(toValue) })),
			next: from + page < all.length ? Buffer.from(String(from + page)) : new Uint8Array(),
		};
	},
	getPolicy: () => ({ policy: policyText }),
};

const mutations = {
	insertFact: ({ fact }) => ({ changed: apply([change(true, fact, "fact")]) > 0 }),
	deleteFact: ({ fact }) => ({ changed: apply([change(false, fact, "fact")]) > 0 }),
	batchFacts: ({ changes }) => ({
		changed: apply(changes.map(({ change: { case: kind, value } }, index) => {
			if (!kind) throw invalid(`changes[${index}]: neither insert nor delete`);
			return change(kind === "insert", value, `changes[${index}].${kind}`);
		})),
	}),
	setPolicy({ policy }) {
		try {
			rules = parsePolicy(policy);
			derive(rules, []);
		} catch (error) {
			throw invalid(error.message);
		}
		policyText = policy;
		derived = undefined;
		return {};
	},
};

function authenticate(context) {
	const key = options["api-key"];
	if (key && context.requestHeader.get("Authorization") !== `Bearer ${key}`)
		throw new ConnectError("unknown API key", Code.Unauthenticated);
}

const revision = (at) => `v1.peer.1.${at}`;

function read(name, context, request) {
	authenticate(context);
	const wanted = context.requestHeader.get("Verdict-Revision");
	if (wanted) {
		const [, reached] = /^v1\.peer\.1\.(\d+)$/.exec(wanted) ?? [];
		if (!options.revisions || reached === undefined || BigInt(reached) > position)
			throw precondition("the revision has not been reached");
	}
	const response = reads[name](request);
	if (options.revisions) context.responseHeader.set("Verdict-Revision", revision(position));
	return response;
}

function mutate(method, context, request) {
	authenticate(context);
	const key = context.requestHeader.get("Idempotency-Key");
	const payload = createHash("sha256").update(toBinary(method.input, request)).digest("hex");
	const identity = JSON.stringify([context.requestHeader.get("Authorization"), method.name, key]);
	const known = key && answers.get(identity);
	if (known && known.payload !== payload)
		throw precondition("the idempotency key was used with another payload");
	const answer = known || { payload, response: mutations[method.localName](request), at: ++position };
	if (key) answers.set(identity, answer);
	if (options.revisions) context.responseHeader.set("Verdict-Revision", revision(answer.at));
	return answer.response;
}

const handlers = Object.fromEntries(service.methods.map((method) => [
	method.localName,
	(request, context) => {
		log.push({
			method: method.name,
			contentType: context.requestHeader.get("Content-Type"),
			session: context.requestHeader.get("Verdict-Session-Id"),
			revision: context.requestHeader.get("Verdict-Revision"),
			key: context.requestHeader.get("Idempotency-Key"),
		});
		return method.localName in reads
			? read(method.localName, context, request)
			: mutate(method, context, request);
	},
]));

const connect = connectNodeAdapter({
	requestPathPrefix: options["path-prefix"],
	routes: (router) => router.service(service, handlers),
});
const versions = {};
const listener = (request, response) => {
	if (request.url === "/log") {
		response.setHeader("Content-Type", "application/json");
		response.end(JSON.stringify({ requests: log, versions }));
		return;
	}
	versions[request.httpVersion] = (versions[request.httpVersion] ?? 0) + 1;
	connect(request, response);
};
const server = options["tls-cert"]
	? createSecureServer({
		allowHTTP1: true,
		cert: readFileSync(options["tls-cert"]),
		key: readFileSync(options["tls-key"]),
	}, listener)
	: createServer(listener);
server.listen(0, "127.0.0.1", () => {
	const scheme = options["tls-cert"] ? "https" : "http";
	console.log(`listening on ${scheme}://127.0.0.1:${server.address().port}${options["path-prefix"]}`);
});
process.on("SIGTERM", () => process.exit(0));
