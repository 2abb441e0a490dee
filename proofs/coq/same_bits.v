(* B8: FleetAttention rank by rank and the row-based method are one computation. The two programs are written as loops
   over memory, with an addition, a multiplication and a decay of which nothing is assumed, so that every rounding is
   covered: they store the same values. Then what both compute, over a ring. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import masked.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.
Variables (T : Type) (zero : T) (add mul : T -> T -> T) (decay : T -> T).   (* any; without decay the identity *)
Variables (N r : nat) (B C : nat -> nat -> T) (v : nat -> T).   (* one column of V; the others are the same *)
Definition write (O : nat -> T) i y : nat -> T := fun i' => if i' == i then y else O i'.

(* for i < N: for j < r: S_j <- decay(S_j) + C_ij v_i; then for j < r: O_i <- O_i + B_ij S_j *)
Definition token (SO : (nat -> T) * (nat -> T)) i :=
  let S := fun j => add (decay (SO.1 j)) (mul (C i j) (v i)) in
  (S, write SO.2 i (foldl (fun o j => add o (mul (B i j) (S j))) (SO.2 i) (iota 0 r))).
Definition row_based := (foldl token (fun=> zero, fun=> zero) (iota 0 N)).2.

(* for j < r: l <- 0; for i < N: l <- decay(l) + C_ij v_i; O_i <- O_i + B_ij l *)
Definition element j (lO : T * (nat -> T)) i :=
  let l := add (decay lO.1) (mul (C i j) (v i)) in (l, write lO.2 i (add (lO.2 i) (mul (B i j) l))).
Definition rank (O : nat -> T) j := (foldl (element j) (zero, O) (iota 0 N)).2.
Definition fleet := foldl rank (fun=> zero) (iota 0 r).

(* What both have: U_ij, and an output of which s ranks are added. *)
Fixpoint U i j := if i is i'.+1 then add (decay (U i' j)) (mul (C i' j) (v i')) else zero.
Definition part i s := foldl (fun o j => add o (mul (B i j) (U i.+1 j))) zero (iota 0 s).

Lemma iota_last n : iota 0 n.+1 = iota 0 n ++ [:: n]. Proof. by rewrite -[n.+1]addn1 iotaD. Qed.
Lemma partS i s : part i s.+1 = add (part i s) (mul (B i s) (U i.+1 s)).
Proof. by rewrite /part iota_last foldl_cat. Qed.

Lemma row_basedE n : let SO := foldl token (fun=> zero, fun=> zero) (iota 0 n) in
  (forall j, SO.1 j = U n j) /\ (forall i, SO.2 i = if i < n then part i r else zero).
Proof.
elim: n => [|n [IHS IHO]]; first by [].
rewrite iota_last foldl_cat /=; set SO := foldl _ _ _ in IHS IHO *; split=> [j|i] /=; first by rewrite IHS.
rewrite /write ltnS; case: ltngtP => [lt|gt|->]; rewrite IHO ?lt ?ltnn //; first by rewrite ltnNge ltnW.
by rewrite /part; elim: (iota 0 r) zero => //= j l IH o; rewrite IHS IH.
Qed.

Lemma rankE O j n : let lO := foldl (element j) (zero, O) (iota 0 n) in
  lO.1 = U n j /\ (forall i, lO.2 i = if i < n then add (O i) (mul (B i j) (U i.+1 j)) else O i).
Proof.
elim: n => [|n [IHl IHO]]; first by [].
rewrite iota_last foldl_cat /=; set lO := foldl _ _ _ in IHl IHO *; split=> [|i] /=; first by rewrite IHl.
rewrite /write ltnS; case: ltngtP => [lt|gt|->]; rewrite IHO ?lt ?ltnn ?IHl // ltnNge ltnW //.
Qed.

Lemma fleetE s i : i < N -> foldl rank (fun=> zero) (iota 0 s) i = part i s.
Proof.
move=> iN; elim: s => [|s IH]; first by [].
rewrite iota_last foldl_cat partS /=; set O := foldl _ _ _ in IH *.
by rewrite /rank; have [_ ->] := rankE O s N; rewrite iN IH.
Qed.

(* B8: the same values, whatever the operations are. *)
Theorem B8_same i : i < N -> fleet i = row_based i.
Proof. by move=> iN; rewrite /fleet fleetE // /row_based; have [_ ->] := row_basedE N; rewrite iN. Qed.

(* B8: the prefix sum of rank j at row i is U_i[j]. *)
Theorem B8_prefix O j n :
  (foldl (element j) (zero, O) (iota 0 n)).1 = (foldl token (fun=> zero, fun=> zero) (iota 0 n)).1 j.
Proof. by have [-> _] := rankE O j n; have [-> _] := row_basedE n. Qed.
End Programs.

Section Value.
Import GRing.Theory.
Local Open Scope ring_scope.
Variables (R : comRingType) (n r d : nat) (B C : 'M[R]_(n, r)) (V : 'M[R]_(n, d)) (M : 'M[R]_n).

(* What is computed: sum_j diag(b_j) M diag(c_j) V = (B C^T o M) V, for every mask. *)
Theorem B8_value :
  \sum_j diag_mx (col j B)^T *m M *m diag_mx (col j C)^T *m V = hadamard (B *m C^T) M *m V.
Proof.
under eq_bigr do rewrite -rank1_mask.
rewrite -mulmx_suml; congr (_ *m V); apply/matrixP => i l; rewrite summxE !mxE mulr_suml.
by apply: eq_bigr => j _; rewrite !mxE big_ord1 !mxE.
Qed.
End Value.
