// Renders a report to one HTML file without scripts, for `holdfast format export --to html`. The build makes it a program of its own.
import { renderToString } from "preact-render-to-string";
import type { Report } from "./api.ts";
import pages from "./pages.css?raw";
import { ReportBody } from "./report-body.tsx";
import run from "./run.css?raw";
import style from "./style.css?raw";

/** The file loads nothing, and a browser runs nothing in it, whatever the report holds. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

export function renderReport(report: Report): string {
  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content={POLICY} />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>{report.page.row.title}</title>
        <style />
      </head>
      <body>
        <main>
          <ReportBody report={report} />
        </main>
      </body>
    </html>
  );
  // Our own text, and not escaped: a browser does not decode entities there. The title before it cannot hold a tag.
  const css = `${style}\n${pages}\n${run}`.replaceAll("</", "<\\/");
  const html = renderToString(document).replace("<style></style>", () => `<style>${css}</style>`);
  return `<!doctype html>\n${html}\n`;
}
