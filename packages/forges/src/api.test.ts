import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { classifyResponse, nextPage } from "./api.ts";
import { hasMarker, truncateBody, withMarker } from "./body-text.ts";
import { parseRemoteUrl } from "./detect-forge.ts";
import { parseResponse, redactSecrets } from "./transport.ts";

const AT = { forge: "GitHub", what: "GET x", fix: "Log in.", now: Date.UTC(2026, 2, 1) };

test("any answer of a forge is classified, and a rate limit ends at a valid time", () => {
  const header = fc.dictionary(
    fc.constantFrom("retry-after", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-reset", "x-github-sso"),
    fc.oneof(fc.string(), fc.constantFrom("0", "1e99", "-5", "Wed, 21 Oct 2037 07:28:00 GMT")),
  );
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), header, fc.jsonValue(), (status, headers, body) => {
      const answer = { kind: "answered", status, headers: new Map(Object.entries(headers)), body } as const;
      // Real bodies come from JSON.parse, so they are plain objects.
      const judged = classifyResponse({ ...answer, body: JSON.parse(JSON.stringify(body)) }, AT);
      expect(judged.kind === "ok").toBe(status >= 200 && status < 300);
      if (status >= 500 && status !== 503) expect(judged.kind).toBe("lost");
      if (judged.kind !== "turned_away") return;
      const { until } = judged.error.data;
      if (until !== undefined) expect(Number.isNaN(Date.parse(String(until)))).toBe(false);
    }),
  );
});

test.each([
  [429, { "retry-after": "30" }, {}, 30],
  [403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(AT.now / 1000 + 90) }, {}, 90],
  [429, { "ratelimit-reset": String(AT.now / 1000 + 120) }, {}, 120],
  [403, {}, { message: "You have exceeded a secondary rate limit." }, 60],
  [422, {}, { message: "Validation Failed", errors: [{ message: "was submitted too quickly" }] }, 60],
  [503, { "retry-after": "Sun, 01 Mar 2026 00:05:00 GMT" }, {}, 300],
])("a limit (%i %j %j) is classified as one, and nothing was done", (status, headers, body, seconds) => {
  const judged = classifyResponse({ kind: "answered", status, headers: new Map(Object.entries(headers)), body }, AT);
  const until = new Date(AT.now + seconds * 1000).toISOString();
  expect(judged).toMatchObject({
    kind: "turned_away",
    error: { code: "FORGE_FAILED", retry: "later", data: { until, undone: true } },
  });
});

test("a failure of the forge keeps the time that it gives, and leaves open whether the forge acted", () => {
  const headers = new Map([["retry-after", "20"]]);
  const judged = classifyResponse({ kind: "answered", status: 502, headers, body: undefined }, AT);
  expect(judged).toEqual({
    kind: "lost",
    reason: "status 502: status 502",
    until: new Date(AT.now + 20_000).toISOString(),
  });
});

test("printed output is parsed into status, headers and body, with either line end", () => {
  const text =
    'HTTP/2.0 200 OK\nContent-Type: application/json; charset=utf-8\r\nLink: <https://x/y?page=2>; rel="next"\r\n\r\n{"a":"b\\n\\nc"}';
  const parsed = parseResponse(text);
  expect(parsed).toMatchObject({ kind: "answered", status: 200, body: { a: "b\n\nc" } });
  expect(parseResponse("HTTP/1.1 204 No Content\nDate: x\r\n\r\n")).toMatchObject({ status: 204, body: undefined });
  expect(parseResponse(text.slice(0, -3))).toEqual({
    kind: "lost",
    reason: "the answer was cut off",
    why: "connection",
  });
  expect(parseResponse("error connecting to api.github.com\n")).toBeNull();
  expect(parseResponse("")).toBeNull();
});

test("the next page comes from the link header, and never from another host", () => {
  const link = '<https://evil.example/z?page=3&per_page=100>; rel="next", <https://x/y?page=9>; rel="last"';
  expect(nextPage("repos/o/r/issues?per_page=100", link)).toBe("repos/o/r/issues?page=3&per_page=100");
  expect(nextPage("a", '<https://x/y?page=1>; rel="prev"')).toBeNull();
  expect(nextPage("a", undefined)).toBeNull();
});

describe("remotes", () => {
  test.each([
    ["https://github.com/octo/app.git", "github.com", "octo", "app"],
    ["https://user:secret@github.com/octo/app", "github.com", "octo", "app"],
    ["git@github.com:octo/app.git", "github.com", "octo", "app"],
    ["github.com:octo/app", "github.com", "octo", "app"],
    ["ssh://git@GHE.example.com:2222/octo/app.git/", "ghe.example.com", "octo", "app"],
    ["https://gitlab.example.com/team/tools/app.js.git", "gitlab.example.com", "team/tools", "app.js"],
  ])("%s", (url, host, owner, name) => {
    expect(parseRemoteUrl(url)).toEqual({ host, owner, name });
  });

  test.each([
    "/srv/app.git",
    "../app.git",
    "file:///srv/app.git",
    "C:/x/y",
    "",
    "https://github.com/octo",
    "https://github.com/../x",
    "https://github.com/o/r%2f..",
    "git@host:app",
  ])("%j is not a repository on a forge", (url) => expect(parseRemoteUrl(url)).toBeNull());
});

test("secrets are masked everywhere", () => {
  const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.stringMatching(/^[A-Za-z0-9_]{8,30}$/), (before, after, secret) => {
      expect(redactSecrets(`${before}${secret}${after}`, [secret])).not.toContain(secret);
    }),
  );
  for (const text of [
    `Authorization: Bearer ${token}`,
    `{"authorization":"token ${token}"}`,
    `bad ${token}.`,
    `https://x-access-token:${token}@github.com/o/r`,
    "PRIVATE-TOKEN: glpat-abcdefghijklmnopqrst",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
  ])
    expect(redactSecrets(text)).not.toMatch(/0123456789|abcdefghijklmnop/);
  expect(redactSecrets("fine: https://github.com/o/r")).toBe("fine: https://github.com/o/r");
});

test("a body is cut to the limit and contains its key", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 400 }), fc.integer({ min: 120, max: 300 }), (body, most) => {
      const fitted = truncateBody(body, most, (text) => withMarker(text, "run-1/a/b"));
      expect(fitted.length).toBeLessThanOrEqual(most);
      expect(hasMarker(fitted, "run-1/a/b")).toBe(true);
    }),
  );
});

describe("a login without the required scope", () => {
  const judge = (status: number, headers: Readonly<Record<string, string>>, body: JsonObject = {}) =>
    classifyResponse({ kind: "answered", status, headers: new Map(Object.entries(headers)), body }, AT);
  const scopes = (has: string) => ({ "x-accepted-oauth-scopes": "repo, public_repo", "x-oauth-scopes": has });

  test.each([
    [403, scopes("gist"), {}, 'The login has "gist" and needs one of "repo, public_repo".'],
    // GitHub's response to a write without the scope.
    [404, scopes("gist"), {}, 'The login has "gist" and needs one of "repo, public_repo".'],
    [404, scopes(""), {}, 'The login has "" and needs one of "repo, public_repo".'],
    [403, { "x-accepted-github-permissions": "pull_requests=write" }, {}, "pull_requests=write"],
    [403, {}, { error: "insufficient_scope", scope: "api" }, 'one of the scopes "api"'],
  ])("%i %j %j names it in the hint", (status, headers, body, hint) => {
    expect(judge(status, headers, body)).toMatchObject({
      kind: "turned_away",
      error: { code: "FORGE_DENIED", hint: expect.stringContaining(hint) },
    });
  });

  test("with the scope, a missing object is absent", () => {
    for (const has of ["repo", "public_repo, gist"]) expect(judge(404, scopes(has))).toEqual({ kind: "absent" });
    expect(judge(404, {})).toEqual({ kind: "absent" });
  });
});

test("the page of a proxy is not taken for the forge's answer", () => {
  const page = "<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head></html>";
  for (const status of [200, 302, 403]) {
    const answer = parseResponse(`HTTP/1.1 ${status} X\r\nContent-Type: text/html\r\n\r\n${page}`);
    expect(answer).toMatchObject({ kind: "lost", reason: expect.stringContaining("Sign in to the network") });
    expect(answer).toMatchObject({ reason: expect.stringMatching(/HTML page.*proxy or a captive portal/) });
  }
  const own = parseResponse(`HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n${page}`);
  expect(own).toMatchObject({ kind: "answered", status: 502 });
});
