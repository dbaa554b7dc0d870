/** The operations of one transaction. Firestore requires all reads first, so writes wait until the work is done; later reads see them. */
import type * as Sdk from '@google-cloud/firestore'
import { failure } from '../errors.js'
import { firestoreUnavailable } from './failures.js'
import { type CollectionPlace, documentPath } from './paths.js'
import { pageText, type PageTexts, type Reader, textOf, Texts } from './read.js'
import type { Creation, DocumentOperation, DocumentSession, PageOperation } from './types.js'
import type { Fields, Values } from './values.js'

/** The writes that one transaction makes together. */
export const maxWrites = 500

const maxDocumentBytes = 1_048_576 // Firestore's limit

export interface SessionParts {
  readonly FieldPath: typeof Sdk.FieldPath
  readonly FieldValue: typeof Sdk.FieldValue
  readonly client: Sdk.Firestore
  readonly values: Values
  readonly reader: Reader
  readonly maxResultBytes: number
}

/** One try of a transaction. */
interface Try {
  /** Whether the caller got a response already. */
  readonly isOver: () => boolean
  /** A new id, which is the same in every try. */
  readonly newId: () => string
}

type Write = (transaction: Sdk.Transaction) => void

export class TransactionSession implements DocumentSession {
  readonly #parts: SessionParts
  readonly #transaction: Sdk.Transaction
  readonly #try: Try
  /** Documents in their new state; null for missing ones. */
  readonly #known = new Map<string, Fields | null>()
  readonly #writes: Write[] = []

  constructor (parts: SessionParts, transaction: Sdk.Transaction, own: Try) {
    this.#parts = parts
    this.#transaction = transaction
    this.#try = own
  }

  /** Passes the writes to the transaction, which commits them next. Returns whether there are any. */
  finish (): boolean {
    for (const write of this.#writes) write(this.#transaction)
    return this.#writes.length > 0
  }

  async text (operation: DocumentOperation): Promise<string | null> {
    const { values, FieldValue } = this.#parts
    const { place, shape } = operation
    if (operation.kind === 'query') return this.#page(operation)
    if (operation.kind === 'create') return this.#create(operation)
    const { id } = operation
    if (id === null) return null
    const path = documentPath(place, id)
    const reference = this.#parts.client.doc(path)
    switch (operation.kind) {
      case 'get': {
        const fields = await this.#read(path, place)
        return fields === null ? null : textOf({ id, fields }, shape)
      }
      case 'delete':
        if (await this.#read(path, place) === null) return null
        this.#write(path, null, (transaction) => transaction.delete(reference))
        return '{"success":true}'
      case 'set': {
        const { kept } = operation
        const before = kept === undefined ? null : await this.#read(path, place)
        const staying = Object.entries(before ?? {}).filter(([name]) => kept?.includes(name) && !Object.hasOwn(operation.fields, name))
        const fields = { ...Object.fromEntries(staying), ...operation.fields }
        const encoded = values.encode(operation.fields, place)
        if (before === null || staying.length === 0) {
          this.#write(path, fields, (transaction) => transaction.set(reference, encoded))
          return textOf({ id, fields }, shape)
        }
        const removed = Object.keys(before).filter((name) => !Object.hasOwn(fields, name))
        const changes = { ...Object.fromEntries(removed.map((name) => [name, FieldValue.delete()])), ...encoded }
        this.#write(path, fields, (transaction) => transaction.set(reference, changes, this.#only(Object.keys(changes))))
        return textOf({ id, fields }, shape)
      }
      case 'update':
      case 'merge': {
        const before = await this.#read(path, place)
        if (before === null && operation.kind === 'update') return null
        const fields = { ...before, ...operation.fields }
        const changes = Object.keys(operation.fields)
        if (before !== null && changes.length === 0) return textOf({ id, fields }, shape)
        this.#write(path, fields, (transaction) => transaction.set(reference, values.encode(operation.fields, place), this.#only(changes)))
        return textOf({ id, fields }, shape)
      }
    }
  }

  /** Writes only these fields: fields of other programs need not have a form in JSON. */
  #only (names: readonly string[]): Sdk.SetOptions {
    return names.length === 0 ? { merge: true } : { mergeFields: names.map((name) => new this.#parts.FieldPath(name)) }
  }

  #create ({ place, shape, id, isNew = id === null, documents, many }: Creation): string {
    const { client, values, maxResultBytes } = this.#parts
    const texts = new Texts(maxResultBytes)
    for (const fields of documents) {
      const own = id ?? this.#try.newId()
      const path = documentPath(place, own)
      if ((this.#known.get(path) ?? null) !== null) throw failure('conflict', { message: 'A document with this id already exists' })
      const reference = client.doc(path)
      // A document that the transaction deletes still exists when its writes begin. One with a new id exists if an earlier try was
      // committed.
      const mayExist = isNew || this.#known.has(path)
      this.#write(path, fields, (transaction) => {
        const encoded = values.encode(fields, place)
        if (mayExist) transaction.set(reference, encoded)
        else transaction.create(reference, encoded)
      })
      texts.add(textOf({ id: own, fields }, shape))
    }
    return many ? `{"data":[${texts.list.join(',')}]}` : texts.list[0] ?? '{}'
  }

  #page (operation: PageOperation): Promise<string> {
    const { reader, values, maxResultBytes } = this.#parts
    const read = async (found: PageTexts): Promise<void> => {
      for await (const document of this.#documents(operation)) {
        const fields = document.data()
        if (fields !== undefined) found.add({ id: document.id, fields: values.decode(fields, operation.place) })
      }
    }
    const count = async () => (await this.#transaction.get(reader.query(operation).count())).data().count
    return pageText(operation, maxResultBytes, read, count)
  }

  /**
   * A transaction cannot stream a page, so a large page is read in parts: its ids, then as many documents at a time as fit in a result.
   * A page that is too large ends before it is in memory.
   */
  async * #documents (operation: PageOperation): AsyncGenerator<Sdk.DocumentSnapshot> {
    const { reader, maxResultBytes } = this.#parts
    const atOnce = Math.max(1, Math.floor(maxResultBytes / maxDocumentBytes))
    const isSmall = operation.limit <= atOnce
    const { docs } = await this.#transaction.get(reader.page(operation, !isSmall))
    if (isSmall) return yield * docs
    const fieldMask = reader.fieldsOf(operation)
    const references = docs.map(({ ref }) => ref)
    for (let from = 0; from < references.length; from += atOnce) {
      if (this.#try.isOver()) throw firestoreUnavailable()
      const part = references.slice(from, from + atOnce)
      yield * await this.#transaction.getAll(...part, ...fieldMask === null ? [] : [{ fieldMask }])
    }
  }

  async #read (path: string, place: CollectionPlace): Promise<Fields | null> {
    const known = this.#known.get(path)
    if (known !== undefined) return known
    const snapshot = await this.#transaction.get(this.#parts.client.doc(path))
    const data = snapshot.data()
    const fields = data === undefined ? null : this.#parts.values.decode(data, place)
    this.#known.set(path, fields)
    return fields
  }

  #write (path: string, fields: Fields | null, write: Write): void {
    if (this.#writes.length === maxWrites) {
      throw failure('badRequest', { message: `A request can write at most ${maxWrites} documents of Firestore: send fewer at a time` })
    }
    this.#known.set(path, fields)
    this.#writes.push(write)
  }
}
