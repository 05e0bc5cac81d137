import { parseBatch, type BatchFile, type ParseAnswer } from "./parse-batch.ts";

/** Python, TOML and XML. Isolated: no site packages, no settings from outside, nothing compiled to disk. */
export function checkWithPython(params: {
  readonly program: string;
  readonly files: readonly BatchFile[];
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<readonly ParseAnswer[]> {
  return parseBatch({ ...params, command: params.program, args: ["-I", "-S", "-B", "-W", "ignore", "-c", PROGRAM] });
}

const PROGRAM = `
import ast, json, sys

def python(data):
    ast.parse(data)

def toml(data):
    import tomllib
    tomllib.loads(data.decode("utf-8"))

def xml(data):
    from xml.parsers import expat
    expat.ParserCreate().Parse(data, True)

def answer(file):
    try:
        with open(file["path"], "rb") as stream:
            data = stream.read()
        {"python": python, "toml": toml, "xml": xml}[file["grammar"]](data)
        return {"kind": "parsed"}
    except SyntaxError as error:
        return {"kind": "failed", "line": error.lineno, "message": error.msg}
    except ImportError:
        return {"kind": "skipped", "why": "this Python is older than 3.11 and cannot read TOML"}
    except (RecursionError, MemoryError, OSError) as error:
        return {"kind": "skipped", "why": "%s: %s" % (type(error).__name__, error)}
    except Exception as error:
        found = getattr(error, "lineno", None)
        if found is None:
            import re
            match = re.search(r"at line (\\d+)", str(error))
            found = int(match.group(1)) if match else None
        return {"kind": "failed", "line": found, "message": str(error)}

for file in json.loads(sys.stdin.buffer.read()):
    sys.stdout.write(json.dumps(answer(file)) + "\\n")
    sys.stdout.flush()
`;
