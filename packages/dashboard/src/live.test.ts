import fc from "fast-check";
import { expect, test } from "vitest";
import { parseEvents } from "./live.ts";

test("whole events are read, and the rest waits for more", () => {
  expect(parseEvents('id: i.1\nevent: ping\ndata: {"a":1}\n\nid: i.2\nevent: ru')).toEqual({
    events: [{ event: "ping", data: '{"a":1}' }],
    rest: "id: i.2\nevent: ru",
  });
});

test("comments, empty events and carriage returns are no data; several data lines are one text", () => {
  expect(parseEvents(": hello\r\n\r\nevent: x\n\ndata: a\r\ndata:b\r\n\r\n").events).toEqual([
    { event: "message", data: "a\nb" },
  ]);
});

test("a stream that is cut anywhere gives the same events", () => {
  const whole = ["run", "log", "ping"]
    .map((event, n) => `id: i.${n}\nevent: ${event}\ndata: ${JSON.stringify({ n })}\n\n`)
    .join("");
  const expected = parseEvents(whole).events;
  fc.assert(
    fc.property(fc.array(fc.nat({ max: whole.length }), { maxLength: 5 }), (cuts) => {
      const places = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
      const events = [];
      let rest = "";
      for (let i = 1; i < places.length; i += 1) {
        const parsed = parseEvents(rest + whole.slice(places[i - 1], places[i]));
        events.push(...parsed.events);
        rest = parsed.rest;
      }
      expect(events).toEqual(expected);
    }),
  );
});
