import type { Repository } from "../repository.ts";

export async function comesFrom(
  repository: Repository,
  params: { readonly ancestor: string; readonly of: string },
): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", params.ancestor, params.of];
  return (await repository.objects.result({ args })).code === 0;
}
