/** URLs in messages without the password or token that they may carry: messages end up in journals and reports. */
export function hideCredentials(text: string): string {
  return text.replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, (whole, scheme: string) =>
    scheme.toLowerCase() === "ssh://" && !/:[^/]*@/.test(whole.slice(scheme.length)) ? whole : `${scheme}***@`,
  );
}
