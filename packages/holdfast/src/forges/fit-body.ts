/**
 * A body that the forge takes. `finish` puts the keys in; what is too long is cut before that, so that a key is never what gets
 * lost: without it the thing could not be found again, and would be made twice.
 */
export function fitBody(body: string, most: number, finish: (body: string) => string): string {
  const whole = finish(body);
  if (whole.length <= most) return whole;
  const room = most - finish("").length - NOTE.length - 2;
  const cut = body.slice(0, Math.max(0, room)).replace(/[\uD800-\uDBFF]$/, "");
  return finish(`${cut}${NOTE}`);
}

const NOTE = "\n\n(cut: the forge takes no more)";
