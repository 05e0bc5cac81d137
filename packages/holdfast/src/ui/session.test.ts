import { expect, test } from "vitest";
import { RateLimit, Sessions, TOKEN, isEveryAddress, ownHosts, refuseRequest } from "./session.ts";

test("a code is traded once, and not after its time", () => {
  let now = 0;
  const sessions = new Sessions(() => now, null);
  const [first, second] = [sessions.code(1000), sessions.code(1000)];
  const token = sessions.trade(first) ?? "";
  expect(sessions.allows(`Bearer ${token}`)).toBe(true);
  expect(sessions.trade(first)).toBeNull();
  now = 1000;
  expect(sessions.trade(second)).toBeNull();
  for (const wrong of [undefined, "", token, `Bearer ${token}x`, `bearer ${token}`, `Bearer ${token} `])
    expect(sessions.allows(wrong), wrong).toBe(false);
});

test.each([32, 200])("a token of %i characters that the user chose is allowed", (length) => {
  const token = "t".repeat(length);
  expect(TOKEN.test(token)).toBe(true);
  expect(new Sessions(() => 0, token).allows(`Bearer ${token}`)).toBe(true);
});

test.each(["t".repeat(31), "t".repeat(201), `${"t".repeat(40)}!`])("%s cannot be a token", (token) => {
  expect(TOKEN.test(token)).toBe(false);
  expect(new Sessions(() => 0, token).allows(`Bearer ${token}`)).toBe(false);
});

test.each(["0.0.0.0", "::", "0::0", "::0.0.0.0", "::ffff:0.0.0.0", "::ffff:0:0", "0:0:0:0:0:FFFF:0:0", "::%lo"])(
  "%s is every address of the machine",
  (address) => expect(isEveryAddress(address)).toBe(true),
);

test.each(["127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%eth0", "10.0.0.0"])("%s is one address", (address) => {
  expect(isEveryAddress(address)).toBe(false);
});

test("a limit counts the requests of each second", () => {
  let now = 0;
  const limit = new RateLimit(2, () => now);
  expect([limit.allows(), limit.allows(), limit.allows()]).toEqual([true, true, false]);
  now = 1000;
  expect(limit.allows()).toBe(true);
});

test("a navigation from another site may open the page, and no query", () => {
  const hosts = ownHosts("127.0.0.1", 4680);
  const from = (path: string, mode: string) => {
    const headers: Readonly<Record<string, string>> = {
      host: "127.0.0.1:4680",
      "sec-fetch-site": "cross-site",
      "sec-fetch-mode": mode,
    };
    return refuseRequest({ method: "GET", path, url: path, header: (name) => headers[name] }, hosts)?.status ?? 200;
  };
  expect([from("/", "navigate"), from("/", "no-cors"), from("/api/boot", "navigate")]).toEqual([200, 403, 403]);
});

test("the origin of a request is the host that it names: localhost may be another server than 127.0.0.1", () => {
  const hosts = ownHosts("127.0.0.1", 4680);
  const status = (host: string, origin: string) => {
    const headers: Readonly<Record<string, string>> = { host, origin };
    return refuseRequest({ method: "GET", path: "/", url: "/", header: (name) => headers[name] }, hosts)?.status ?? 200;
  };
  for (const host of hosts) expect(status(host, `http://${host}`), host).toBe(200);
  expect(status("127.0.0.1:4680", "http://localhost:4680")).toBe(403);
  expect(status("localhost:4680", "http://127.0.0.1:4680")).toBe(403);
});

test("HEAD is for files of the page: of a stream of events it would never end", () => {
  const hosts = ownHosts("127.0.0.1", 4680);
  const header = (name: string) => (name === "host" ? "127.0.0.1:4680" : undefined);
  const head = (path: string) => refuseRequest({ method: "HEAD", path, url: path, header }, hosts)?.status ?? 200;
  expect([head("/"), head("/api/events")]).toEqual([200, 405]);
});
