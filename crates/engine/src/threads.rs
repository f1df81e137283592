//! Work on several threads.

use std::thread::Builder;

/// Does the work of each of `most` threads, told its number, until all have ended; the first error is
/// theirs. A system that gives fewer threads has the work done by those, and by this one if it gives none.
///
/// # Panics
/// If a thread does, with its panic.
pub fn on_threads<E: Send>(
    most: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |number| {
            Builder::new()
                .spawn_scoped(scope, move || work(number))
                .ok()
        };
        let threads: Vec<_> = (0..most).map_while(start).collect();
        if threads.is_empty() {
            return work(0);
        }
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn each_has_its_number() {
        let numbers = Mutex::new(BTreeSet::new());
        let note = |number| {
            numbers.lock().unwrap().insert(number);
            Ok::<(), ()>(())
        };
        on_threads(3, note).unwrap();
        assert_eq!(*numbers.lock().unwrap(), BTreeSet::from([0, 1, 2]));
    }

    #[test]
    fn without_threads_the_work_is_done_here() {
        let here = std::thread::current().id();
        let elsewhere = |_| match std::thread::current().id() == here {
            true => Ok(()),
            false => Err(()),
        };
        assert_eq!(on_threads(0, elsewhere), Ok(()));
        assert_eq!(on_threads(1, elsewhere), Err(()));
    }

    #[test]
    fn an_error_is_told_when_all_have_ended() {
        let ended = Mutex::new(0);
        let work = |number| {
            *ended.lock().unwrap() += 1;
            match number {
                1 => Err("one"),
                _ => Ok(()),
            }
        };
        assert_eq!(on_threads(3, work), Err("one"));
        assert_eq!(*ended.lock().unwrap(), 3);
    }
}
