/** The last part of a stream of text, without keeping the rest: an agent may print for hours. */
export function createTail(maxCharacters: number): { add(text: string): void; text(): string } {
  let pieces: string[] = [];
  let length = 0;
  return {
    add(text) {
      pieces.push(text);
      length += text.length;
      // Joined only when twice as much is there: each character is copied once or twice, not once a piece.
      if (length <= 2 * maxCharacters) return;
      pieces = [pieces.join("").slice(-maxCharacters)];
      length = maxCharacters;
    },
    text: () => pieces.join("").slice(-maxCharacters),
  };
}
