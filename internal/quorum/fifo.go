package quorum

// fifo is a queue that keeps its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) push(v T)    { q.items = append(q.items, v) }
func (q *fifo[T]) empty() bool { return q.head == len(q.items) }
func (q *fifo[T]) len() int    { return len(q.items) - q.head }
func (q *fifo[T]) at(i int) *T { return &q.items[q.head+i] }

// cut keeps the first n.
func (q *fifo[T]) cut(n int) {
	clear(q.items[q.head+n:])
	q.items = q.items[:q.head+n]
}

func (q *fifo[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 32 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
