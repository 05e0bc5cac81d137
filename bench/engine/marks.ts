export interface Marks {
  reset(workflows: number): void;
  hit(workflow: number): void;
  all(): readonly (readonly number[])[];
}

/** When the body of each step is entered, by workflow: what step latency is told from, alike for all. */
export function createMarks(): Marks {
  let marks: number[][] = [];
  return {
    reset: (workflows) => {
      marks = Array.from({ length: workflows }, () => []);
    },
    hit: (workflow) => void marks[workflow]?.push(performance.now()),
    all: () => marks,
  };
}
