/** A tenth is as fine as anybody scores; what is whole stays whole. */
export function scoreText(score: number): string {
  return String(Math.round(score * 10) / 10);
}
