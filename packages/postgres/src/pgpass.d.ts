/** The module has no declarations of its own. */
declare module "pgpass" {
  export default function pgPass(
    of: { readonly host: string; readonly port: number; readonly database: string; readonly user: string },
    answer: (password: string | undefined) => void,
  ): void;
}
