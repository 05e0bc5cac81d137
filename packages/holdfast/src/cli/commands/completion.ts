/** The `completion` command: prints a completion script for the user's shell. */
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";

export const spec = {
  name: "completion",
  summary: "print a completion script for your shell",
  details: ["Completes commands, flags, run ids, sequences and tags."],
  operands: [
    {
      name: "SHELL",
      about: "bash, zsh or fish",
      required: true,
      completes: "nothing",
      choices: ["bash", "zsh", "fish"],
    },
  ],
  consent: "reads",
  flags: {},
  examples: [
    { line: "source <(holdfast completion bash)", about: "bash: add this line to ~/.bashrc" },
    { line: "source <(holdfast completion zsh)", about: "zsh: add this line to ~/.zshrc, after compinit" },
    { line: "holdfast completion fish > ~/.config/fish/completions/holdfast.fish", about: "fish" },
  ],
  json: '{"shell": "...", "script": "..."}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const name = input.operand(0) ?? "";
  const script = new Map<string, string>(Object.entries(COMPLETION_SCRIPTS)).get(name) ?? "";
  shell.print({ json: () => ({ shell: name, script }), text: () => script, verbatim: true });
  return "done";
}

/** Each script only passes the words to `holdfast complete`, so that one place defines what can be completed. */
const COMPLETION_SCRIPTS = {
  // bash also splits words at @ (COMP_WORDBREAKS), so the answer must not repeat the part before it.
  bash: String.raw`_holdfast() {
  local line=${"$"}{COMP_LINE:0:COMP_POINT} candidate
  local -a words
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local last=${"$"}{words[${"$"}{#words[@]}-1]} typed=""
  [[ $COMP_WORDBREAKS == *@* && $last == *@* ]] && typed=${"$"}{last%"${"$"}{last##*@}"}
  COMPREPLY=()
  while IFS= read -r candidate; do
    case $candidate in
      :directories) compopt -o dirnames 2>/dev/null ;;
      :files) compopt -o default 2>/dev/null ;;
      *@) compopt -o nospace 2>/dev/null; COMPREPLY+=("${"$"}{candidate#"$typed"}") ;;
      *) COMPREPLY+=("${"$"}{candidate#"$typed"}") ;;
    esac
  done < <(holdfast complete -- "${"$"}{words[@]:1}" 2>/dev/null)
}
complete -F _holdfast holdfast
`,
  zsh: String.raw`#compdef holdfast
_holdfast() {
  local -a candidates plain open
  candidates=("${"$"}{(@f)$(holdfast complete -- "${"$"}{(@)words[2,CURRENT]}" 2>/dev/null)}")
  local candidate
  for candidate in $candidates; do
    case $candidate in
      :directories) _directories ;;
      :files) _files ;;
      *@) open+=("$candidate") ;;
      ?*) plain+=("$candidate") ;;
    esac
  done
  (( $#open )) && compadd -S '' -a open
  (( $#plain )) && compadd -a plain
}
compdef _holdfast holdfast
`,
  fish: String.raw`function __holdfast_complete
    set -l words (commandline -opc) (commandline -ct)
    for candidate in (holdfast complete -- $words[2..-1] 2>/dev/null)
        switch $candidate
            case ':directories'
                __fish_complete_directories (commandline -ct)
            case ':files'
                __fish_complete_path (commandline -ct)
            case '*'
                echo $candidate
        end
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
`,
} as const;
