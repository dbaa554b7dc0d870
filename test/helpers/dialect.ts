/** Pronouns and clauses that hide their noun, with the better form. */
const dialect: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(?:whoever|nobody|whatever)\b/i, 'name the caller, the tenant or the thing'],
  [/\b(?:told|be had)\b/i, 'use the verb: receives, learns, reports, fetches'],
  [/\bthat there (?:is|are) not\b/i, 'write "unknown" or "missing"'],
  [/\b(?:is|are|was|be) none\b/i, 'write "does not exist", "is not a ..." or "is invalid"'],
  [/\bof what\b/i, 'use a noun instead of "what"'],
  [/\b(?:so it is|comes? to be|nor has|be it)\b/i, 'turn the clause around: subject, verb, object'],
  [/^Of (?!\d)/, 'begin with the subject'],
  [/^What (?:is|has|does|was|cannot|comes)\b.*[^?]$/, 'begin with a noun']
]

/** A description stands alone beside its member, so that its first word must be the subject or the verb. */
const ofDescriptions: typeof dialect = [
  ...dialect,
  [/^(?:Of|Those|That|What|Whether|Whose|It|As|None|When|Until|In|Where)\b/, 'begin with the subject'],
  [/\banswer(?:s|ed)?\b/i, 'write "response" or "responds"'],
  [/\b(?:in force|of before)\b/i, 'write "active" or "previous"']
]

/** The phrases of a sentence in a document that are hard to understand, each with advice. */
export function dialectIn (sentence: string): string[] {
  return found(sentence, dialect)
}

/** The same for a description of an endpoint, a parameter or a member of a schema. */
export function dialectInDescription (text: string): string[] {
  return found(text, ofDescriptions)
}

function found (text: string, patterns: typeof dialect): string[] {
  return patterns.flatMap(([pattern, advice]) => {
    const [phrase] = pattern.exec(text) ?? []
    return phrase === undefined ? [] : [`"${phrase}" (${advice})`]
  })
}
